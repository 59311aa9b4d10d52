"""What is in a file or folder of any stage, read cheaply and never written.

What is not here: whether it is valid, see `trajpipe.checks`; the verb, see `cli.verbs.inspect_path`.
"""
