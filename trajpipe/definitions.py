"""What `dagster dev -w workspace.yaml` loads: the definitions of the project in the current folder.

What is not here: how they are built, see `trajpipe.defs`.
"""

from trajpipe.defs import build_defs

defs = build_defs()
