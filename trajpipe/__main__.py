"""`python -m trajpipe`: the command line.

What is not here: the command line itself, see `trajpipe.cli.main`.
"""

import sys

from trajpipe.cli.main import main

sys.exit(main())
