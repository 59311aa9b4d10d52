"""Pictures of datasets as PNG bytes, for asset metadata and pages.

What is not here: where they are shown, see `trajpipe.defs.metadata`.
"""
