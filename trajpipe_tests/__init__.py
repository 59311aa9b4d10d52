"""The tests of trajpipe; the structure mirrors the package."""
