"""The root of the command line: the table of commands, and the way from a word to its module.

To add a command: a row in COMMANDS, and a module beside this one with its record of options (a CommandOptions, whose
docstring is its help and opens with the row's sentence) and a function `command` that takes the record. A group has
such functions by name in SUBCOMMANDS of its module. `python -m transload.pipeline.cli.cli_reference` writes
docs/reference-cli.md anew, and `make docs-check` says where it differs. Only the module of the command that was asked
for is imported, and it may import no framework.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_type_hints

from ...models.errors import BadRequest, Exit
from ..progress.terminal_text import fit_terminal

if TYPE_CHECKING:
    import typer

PROGRAM = "transload"
COMPLETE_VARIABLE = "_TRANSLOAD_COMPLETE"  # a shell sets it to ask for completions
INSTALL_COMPLETION, SHOW_COMPLETION = _COMPLETION = ("--install-completion", "--show-completion")


@dataclass(frozen=True, slots=True)
class Command:
    """A command, as data: what `transload --help` shows needs no more."""

    name: str
    summary: str  # one sentence
    group: str

    @property
    def page(self) -> str:
        """The page that shows the command in use."""
        return f"docs/{_PAGES.get(self.name, self.name)}.md"

    def load(self) -> Any:
        """Return the command as typer has it. Imports its module, and typer."""
        import typer

        from ..options.command_line import line_function

        module = import_module(f"{__package__}.{self.name}")
        app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=CONTEXT)
        subcommands = getattr(module, "SUBCOMMANDS", None)
        if subcommands:
            app.callback()(module.command)
        for name, act in (subcommands or {self.name: module.command}).items():
            record = get_type_hints(act)["options"]
            app.command(name, context_settings=CONTEXT)(line_function(record, act))
        return typer.main.get_command(app)


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
WORK, LOOK = "Work", "Look"
# Of commands without a page of their own.
_PAGES = {"record": "mlflow", "new": "recipes", "zoo": "recipes", "formats": "convert"}
_LEAST_LIKENESS = 0.7  # of two words: frobnicate is not meant for locate

COMMANDS: tuple[Command, ...] = (
    Command("run", "Train, convert, validate, measure, and say what may be released.", WORK),
    Command("convert", "Carry a model, or several, into other formats, each verified against it.", WORK),
    Command("validate", "Hold the answers of artifacts against those of the model they were made from.", WORK),
    Command("locate", "Find where artifacts depart from the model they were made from.", WORK),
    Command("bench", "Measure the latency of artifacts, all of them in the same rounds.", WORK),
    Command("compare", "Compare a run with an earlier one: status, drift, metric, size, latency and memory.", WORK),
    Command(
        "history",
        "Show releases over time: drift, metric, latency, size and memory of each artifact, run by run.",
        WORK,
    ),
    Command("serve", "Serve artifacts over TF Serving's API until it is stopped.", WORK),
    Command("bundle", "Write what a serving system expects of an artifact, with a check of its endpoint.", WORK),
    Command("store", "List what the store of finished steps holds, remove what nothing uses, check it.", WORK),
    Command("record", "Send a finished run to MLflow: figures, report, and a model for each verified artifact.", WORK),
    Command("report", "Write the report of a finished run again.", WORK),
    Command("new", "Write a recipe of your own to start from.", WORK),
    Command("inspect", "Show what an artifact's folder, or the file of a model of anybody, says of itself.", LOOK),
    Command("verify", "Check an artifact against its statement: files, signature, verdict.", LOOK),
    Command("zoo", "List the recipes that ship with transload.", LOOK),
    Command("formats", "Show the formats, the steps between them and the runtimes.", LOOK),
    Command("doctor", "Say what works on this machine, and what closes the rest.", LOOK),
)


def dispatch(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names, and return its exit status.
    Raises TransloadError; errors.py turns it into the sentence that a person reads."""
    if argv is None and (instruction := os.environ.get(COMPLETE_VARIABLE)):
        from .completion.completion import answer_shell

        return answer_shell(instruction)
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        return _help(words[1:])
    if words[0] in ("-V", "--version"):
        from ... import __version__

        print(f"{PROGRAM} {__version__}")
        return Exit.PASS
    if words[0] in _COMPLETION:
        from .completion.completion import install_or_show

        return install_or_show(words)
    return _run(find_command(words[0]), words[1:])


def find_command(name: str) -> Command:
    """Return the command of that name. Raises BadRequest with the nearest one."""
    commands = {command.name: command for command in COMMANDS}
    if name in commands:
        return commands[name]
    known = ["--help", "--version", *_COMPLETION] if name.startswith("-") else list(commands)
    near = get_close_matches(name, known, n=1, cutoff=_LEAST_LIKENESS)
    is_option = name.startswith("-")
    rest = f"write the command before its options; '{PROGRAM} --help' lists them"
    raise BadRequest(
        f"unknown {'option' if is_option else 'command'} {name!r}",
        fix=f"did you mean {PROGRAM} {near[0]}?" if near else rest if is_option else f"use one of {', '.join(known)}",
    )


def root_help() -> str:
    """Return what `transload --help` prints."""
    lines = [
        f"Usage: {PROGRAM} COMMAND [OPTIONS]",
        "",
        "  Carry a trained PyTorch model into its serving formats, prove that the copies agree, measure them, decide.",
    ]
    width = max(len(command.name) for command in COMMANDS) + 2
    for group in dict.fromkeys(command.group for command in COMMANDS):
        rows = [f"  {command.name:<{width}}{command.summary}" for command in COMMANDS if command.group == group]
        lines += ["", f"{group}:", *rows]
    options = (
        ("-h, --help", "Show this, or the help of a command."),
        ("-V, --version", "Show the version."),
        (f"{INSTALL_COMPLETION} [SHELL]", "Complete commands and options in this shell, or in the one named."),
        (f"{SHOW_COMPLETION} [SHELL]", "Print the script that does so."),
    )
    width = max(len(name) for name, _ in options) + 2
    return "\n".join([*lines, "", "Options:", *(f"  {name:<{width}}{text}" for name, text in options)])


def _help(words: Sequence[str]) -> int:
    if words:
        return _run(find_command(words[0]), ["--help"])
    print(fit_terminal(root_help(), sys.stdout))
    return Exit.PASS


def _run(command: Command, words: list[str]) -> int:
    """Parse and call. Not typer's own `main`: it would print errors in its way, and swallow Ctrl-C."""
    import typer

    loaded, name = command.load(), f"{PROGRAM} {command.name}"
    if getattr(loaded, "commands", None) and not words:
        words = ["--help"]
    try:
        context: typer.Context = loaded.make_context(name, words)
        with context:
            loaded.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:
        from .output.error_output import usage_error

        parsed = getattr(error, "ctx", None)  # of a group, the command in it
        name, loaded = (parsed.command_path, parsed.command) if parsed else (name, loaded)
        options = [option for param in loaded.params for option in param.opts]
        subcommands = list(getattr(loaded, "commands", {}))
        raise usage_error(error, name, options, subcommands=subcommands, page=command.page) from error
    return Exit.PASS
