"""`python -m transload`: the same as the command `transload`."""

import sys
from pathlib import Path

# `-m` puts the folder one stands in first on sys.path: a user's json.py would be everybody's.
if sys.path and Path(sys.path[0]) == Path.cwd():
    del sys.path[0]

from .pipeline.cli import main

if __name__ == "__main__":
    sys.exit(main())
