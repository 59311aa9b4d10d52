"""MJCF read as untrusted text: kinematics only, nothing is opened because an XML says so.

Joint tables, fixture poses, kinematic models and joint remaps. What is not here: simulation; MuJoCo itself is
used by the checks alone.
"""
