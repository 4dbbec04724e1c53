"""Lets ``python -m weft`` stand for ``weft``."""

import sys

from weft.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
