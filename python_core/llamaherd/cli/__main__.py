"""`python -m llamaherd.cli`, where the command is not in the path."""

import sys

from llamaherd.cli.main import main

sys.exit(main())
