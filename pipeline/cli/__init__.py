"""The command line: `transload COMMAND`. A command parses, calls the library, renders, exits."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command as the program `transload`; return the exit status (docs/exit-codes.md).
    Whatever happens becomes one: no exception leaves this function."""
    from .output.error_output import guarded

    return guarded(_dispatch, argv)


def _dispatch(argv: Sequence[str] | None) -> int:
    from .app import dispatch

    return dispatch(argv)
