"""`python -m llamaherd`, if the command is not on the path."""

import sys

from llamaherd.cli import main

sys.exit(main())
