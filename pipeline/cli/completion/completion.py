"""Completion in a shell: the script that asks for it, and the answers. Typer's protocol over our table of commands.

Only the module of the command that is being written is imported. Bash takes `:` and `=` for ends of words; here they
are parts of them, as in zoo:digits-cnn, so that words are joined before they are completed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from subprocess import SubprocessError
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ....models.errors import BadRequest, Exit, TransloadError
from ..app import COMMANDS, COMPLETE_VARIABLE, PROGRAM, SHOW_COMPLETION, find_command

# It has what it passes on from private modules without naming it as exported, so that no type is known.
_typer_completion: Any = import_module("typer.completion")
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_JOINTS = (":", "=")


class _Commands(TyperGroup):
    """All commands, each loaded when its own words are completed."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names, in the order of the help."""
        return [command.name for command in COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return name and summary, which is all that a list of commands shows."""
        return TyperCommand(cmd_name, help=find_command(cmd_name).summary)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ARG002
        """Load the command that is being written; None where there is none of that name."""
        known = {command.name: command for command in COMMANDS}
        command = known.get(args[0])
        return (command.name, command.load(), args[1:]) if command else (None, None, args)


def answer_shell(instruction: str) -> int:
    """Print the completions that a shell asks for by its variables; nothing where there are none."""
    _typer_completion.completion_init()
    cut = _join_words() if instruction == "complete_bash" else 0
    output = io.StringIO()
    try:
        with redirect_stdout(output):
            group = _Commands(name=PROGRAM, commands={})
            status: int = _typer_completion.shell_complete(group, {}, PROGRAM, COMPLETE_VARIABLE, instruction)
    except (TransloadError, KeyError, ValueError):  # a half-written line may be wrong, and a variable may be missing
        return Exit.FAIL
    if text := "\n".join(line[cut:] for line in output.getvalue().splitlines()):
        print(text)
    return status


def install_or_show(words: Sequence[str]) -> int:
    """Install the script of a shell, or print it: `--install-completion [SHELL]`, `--show-completion [SHELL]`."""
    option, *rest = words
    shell = rest[0] if rest else _shell_in_use()
    if shell not in SHELLS or len(rest) > 1:
        named = f"{option} {' '.join(rest)}" if rest else f"the shell in use ({shell or 'unknown'})"
        raise BadRequest(f"{named}: no such shell is completed", fix=f"name one: {option} {'|'.join(SHELLS)}")
    if option == SHOW_COMPLETION:
        print(_typer_completion.get_completion_script(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, shell=shell))
        return Exit.PASS
    try:
        _, path = _typer_completion.install(shell, PROGRAM, COMPLETE_VARIABLE)
    except (OSError, SubprocessError, typer.Exit) as error:
        raise BadRequest(
            f"the completion of {shell} cannot be installed: {error}",
            fix=f"put what '{PROGRAM} {SHOW_COMPLETION} {shell}' prints where your shell reads it (docs/install.md)",
        ) from error
    print(f"wrote {path}; open a new {shell} to use it")
    return Exit.PASS


def _shell_in_use() -> str | None:
    shellingham: Any = import_module("shellingham")  # comes with typer, without types
    try:
        name: str = shellingham.detect_shell()[0]
    except (shellingham.ShellDetectionFailure, OSError):
        return None
    return name


def _join_words() -> int:
    """Join the words that bash has taken apart, in the variables that it asks by.
    Return how many characters of each completion bash holds already, before the last joint."""
    words = os.environ.get("COMP_WORDS", "").split("\n")
    at = os.environ.get("COMP_CWORD", "")
    if not at.isdecimal():
        return 0
    joined: list[str] = []
    glue = False
    for word in words[: int(at) + 1]:
        is_joint = word in _JOINTS
        if joined and (is_joint or glue):
            joined[-1] += word
        else:
            joined.append(word)
        glue = is_joint
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)
    last = joined[-1] if joined else ""
    if last.startswith("--") and "=" in last:  # what is completed is the option's value alone
        last = last.partition("=")[2]
    return max(last.rfind(joint) for joint in _JOINTS) + 1
