"""`python -m transload` is the same as `transload`."""

from .pipeline.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
