"""`python -m navrl <command>`, the same as `navrl <command>`."""

import sys

from navrl.cli import main

if __name__ == "__main__":
    sys.exit(main())
