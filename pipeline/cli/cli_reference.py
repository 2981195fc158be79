"""docs/reference-cli.md, made from the commands themselves.

python -m transload.pipeline.cli.cli_reference > docs/reference-cli.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .app import COMMANDS, PROGRAM, Command, root_help

HEAD = """# Reference of the command line

Made by `python -m transload.pipeline.cli.cli_reference`; a test compares it with the program. What a command's exit
status means stands in [exit-codes.md](exit-codes.md).
"""
WIDTH = 100  # columns; a terminal's own width must not decide what a file says


def reference() -> str:
    """Return the page as text."""
    parts = [
        HEAD,
        _block(PROGRAM, root_help()),
        *(_block(*help_text) for command in COMMANDS for help_text in _helps(command)),
    ]
    return "\n".join(parts)


def _block(title: str, text: str) -> str:
    return f"## {title}\n\n```text\n{text.rstrip()}\n```\n"


def _helps(command: Command) -> Iterator[tuple[str, str]]:
    """Yield the title and the help of a command, and of each command in a group."""
    loaded, title = command.load(), f"{PROGRAM} {command.name}"
    yield title, _help(loaded, title)
    for name, subcommand in getattr(loaded, "commands", {}).items():
        yield f"{title} {name}", _help(subcommand, f"{title} {name}")


def _help(loaded: Any, title: str) -> str:
    context = loaded.make_context(title, [], resilient_parsing=True, terminal_width=WIDTH)
    return str(loaded.get_help(context))


if __name__ == "__main__":
    print(reference(), end="")
