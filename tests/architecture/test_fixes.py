"""Every sentence that tells a user what to do names only what there is: commands, their options, keys, values."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from transload.pipeline.cli.app import COMMANDS
from transload.pipeline.options.option_words import parse_duration, parse_latency, parse_share
from transload.pipeline.options.request import RunRequest

from .syntax import nodes_of

ROOT = Path(__file__).parents[2]
LAYERS = ("models", "converters", "serving", "pipeline")
MODEL_COMMANDS = frozenset({"run", "convert", "validate", "locate", "bench"})
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
PROSE = frozenset({"and", "is", "in", "has", "was", "that", "or", "with"})  # behind the name of the program
# Options in fixes that the shared rooms print, and the commands that do not reach these: a recipe says its own inputs,
# takes no settings, and is code of ours that has the time of a training; a run takes no file.
UNREACHED: Mapping[str, frozenset[str]] = {
    "--input": frozenset({"run"}), "--set": frozenset({"run"}), "--trust": frozenset({"run"}),
    "--model-seconds": frozenset({"run"}), "--metric": frozenset({"convert", "locate", "bench"}),
    "--to": frozenset({"validate", "locate", "bench"}), "--against": frozenset({"run", "convert"}),
    "--runtime": frozenset({"convert", "locate"}), "--allowed-loss": frozenset({"convert", "locate", "bench"}),
    "--flex": frozenset({"run", "validate", "locate", "bench"}), "--weights": frozenset(), "--data": frozenset(),
    "--python": frozenset(), "--weights-key": frozenset(),
}  # fmt: skip


@cache
def options_of_commands() -> dict[str, frozenset[str]]:
    """Return the options of every command and of its subcommands."""
    options: dict[str, frozenset[str]] = {}
    for command in COMMANDS:
        loaded = command.load()
        parts = [loaded, *getattr(loaded, "commands", {}).values()]
        options[command.name] = frozenset(word for part in parts for option in part.params for word in option.opts)
    return options


def texts_of(node: ast.AST) -> str:
    """Return the literal words of an expression; what is filled in is a hole."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.FormattedValue):
        return "\x00"
    between = " | " if isinstance(node, ast.IfExp | ast.Tuple | ast.Dict | ast.BoolOp) else ""
    return between.join(map(texts_of, ast.iter_child_nodes(node)))


def fixes_of(code: str) -> Iterator[tuple[int, str]]:
    """Yield each fix of a module: arguments `fix=`, and what is assigned to a name with `fix` in it."""
    for node in nodes_of(code):
        if isinstance(node, ast.keyword) and node.arg == "fix":
            yield node.value.lineno, texts_of(node.value)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [part.id.lower() for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
            if node.value and any("fix" in name or name.startswith(("_no_", "_more", "_name_it")) for name in names):
                yield node.lineno, texts_of(node.value)


def wrong_words(text: str, commands: frozenset[str]) -> list[str]:
    """Return what a fix names that the commands which print it lack.
    `commands` is empty where any command may print it. An option behind `transload NAME` is that command's."""
    options = options_of_commands()
    everywhere = frozenset[str]().union(*options.values(), {"--help"})
    wrong = []
    for named in re.finditer(r"transload ([a-z]+)([^,;()`'|]*)", text):
        command, rest = named[1], named[2]
        if command in options:
            lacking = [option for option in _OPTION.findall(rest) if option not in options[command]]
            wrong += [f"{option} of {command}" for option in lacking if option != "--help"]
        elif command not in PROSE:
            wrong.append(f"transload {command}")
        text = text.replace(named[0], "")
    for option in sorted(set(_OPTION.findall(text))):
        printing = commands - UNREACHED.get(option, frozenset())
        if option not in everywhere:
            wrong.append(f"{option} of no command")
        elif lacking := sorted(name for name in printing if option not in options[name] | {"--help"}):
            wrong.append(f"{option} of {', '.join(lacking)}")
    return wrong


def commands_of(file: Path) -> frozenset[str]:
    """Return the commands that can print a fix of a file: its own, or all that take a model; empty: any."""
    room, name = file.parent.name, file.stem
    if room in ("cli", "commands") and name in options_of_commands():
        return frozenset({name})
    shared = {"readers", "intake", "loading", "data_sources", "user_python", "plan"}
    return MODEL_COMMANDS if room in shared else frozenset()


# Options of other programs, and of commands that call the module without being named like it.
OTHERS = {
    "serving/server": "serve",
    "pipeline/commands/baseline.py": "run",
    "pipeline/plan/served_model.py": "validate bench",
    "pipeline/plan/recorded_source.py": "validate locate bench",
}


@pytest.mark.parametrize("layer", LAYERS)
def test_every_fix_names_what_its_command_has(layer: str) -> None:
    wrong = []
    for file in sorted((ROOT / layer).rglob("*.py")):
        place = file.relative_to(ROOT).as_posix()
        own = next((names for start, names in OTHERS.items() if place.startswith(start)), None)
        commands = frozenset(own.split()) if own else commands_of(file)
        for line, text in fixes_of(file.read_text()):
            wrong += [f"{place}:{line}: {word}: {text}" for word in wrong_words(text, commands)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ('raise X("a", fix="give --wieghts FILE")', ["--wieghts of no command"]),
        ('fix = f"give {x}, or --baseline RUN"', ["--baseline of bench"]),
        ('raise X("a", fix="use transload conevrt " + model)', ["transload conevrt"]),
        ('raise X("a", fix=f"transload bench {x} --metric f1")', ["--metric of bench"]),
        ('raise X("a", fix="give --data FILE.npz")', []),
    ],
)
def test_a_planted_wrong_fix_is_found(code: str, wrong: list[str]) -> None:
    for _, text in fixes_of(code):
        assert sorted(wrong_words(text, frozenset({"bench"} if "baseline" in code else {"run"}))) == wrong


def test_keys_of_the_pipeline_file_in_fixes_exist() -> None:
    """`section.key` of a section's name, and `key in [section]`."""
    sections = {
        field.alias or name: field.default
        for name, field in RunRequest.model_fields.items()
        if hasattr(field.default, "model_dump")
    }
    wrong = []
    for layer in LAYERS:
        for file in sorted((ROOT / layer).rglob("*.py")):
            for line, text in fixes_of(file.read_text()):
                pairs = re.findall(r"(?<![\w./-])([a-z]+)\.([a-z_]+)\b(?![.(/:])", text)
                pairs += [(section, key) for key, section in re.findall(r"([a-z_]+) in \[([a-z]+)\]", text)]
                for section, key in pairs:
                    known = sections.get(section)
                    if known is None or key in {"toml", "py", "npz"}:
                        continue
                    keys = {own.alias or name for name, own in type(known).model_fields.items()}
                    wrong += [] if key in keys else [f"{file}:{line}: {section}.{key}"]
    assert not wrong, wrong


@pytest.mark.parametrize(("parse", "wrong"), [(parse_duration, "ten"), (parse_latency, "ten"), (parse_share, "half")])
def test_a_parser_takes_the_values_that_it_names(parse: Callable[[str], object], wrong: str) -> None:
    with pytest.raises(Exception, match="write it as in") as refusal:
        parse(wrong)
    words = re.findall(r"[\d.]+(?:us|ms|%|[smh])?", str(refusal.value).partition("write it as in")[2])
    assert words
    assert all(parse(word) is not None for word in words)
