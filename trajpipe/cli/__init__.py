"""The command line: verbs, tables, JSON, error texts, progress bars.

What is not here: any work on data; verbs call `trajpipe.pipeline` and the layers below.
"""
