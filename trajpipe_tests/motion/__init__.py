"""Tests of kinematics, velocities, resampling and observations of motions."""
