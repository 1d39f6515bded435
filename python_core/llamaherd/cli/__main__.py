"""`python -m llamaherd.cli`, if the command is not on the path."""

import sys

from llamaherd.cli.main import main

sys.exit(main())
