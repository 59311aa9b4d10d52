"""Whole-body motion of a robot: kinematic tree, forward kinematics, velocities, resampling, observations.

What is not here: reading clips (`trajpipe.sources.lafan`) and the store's layout (`trajpipe.pipeline`).
"""
