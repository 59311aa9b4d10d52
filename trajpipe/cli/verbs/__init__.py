"""The verbs, one module each, loaded when asked for.

What is not here: their list, see `trajpipe.cli.app`.
"""
