"""L2, `demos.hdf5`: writing, reading, merging, selecting episodes and assigning splits.

The raw formats live in `trajpipe.sources`, the rules of a finished file in `trajpipe.checks.demos`.
"""
