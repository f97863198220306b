"""`python -m deploy.cli`: the command line without its installed name."""

import sys

from deploy.cli import main

if __name__ == "__main__":
    sys.exit(main())
