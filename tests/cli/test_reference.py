"""The commands, their help, and docs/reference-cli.md say the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from transload.pipeline.cli import main
from transload.pipeline.cli.app import COMMANDS, Command
from transload.pipeline.cli.cli_reference import reference


def test_the_reference_is_up_to_date(root: Path) -> None:
    """Else: python -m transload.pipeline.cli.cli_reference > docs/reference-cli.md"""
    assert (root / "docs" / "reference-cli.md").read_text() == reference()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.name)
def test_a_command_opens_its_help_with_the_sentence_of_the_table(command: Command) -> None:
    assert command.load().help.splitlines()[0] == command.summary


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.name)
def test_help_is_the_same_by_either_word(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    said = [(main(words), *capsys.readouterr()) for words in ([command.name, "--help"], ["help", command.name])]
    assert said[0] == said[1]
    assert said[0][0] == 0
    assert said[0][2] == ""


def test_help_without_a_command_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    assert [each.name for each in COMMANDS if f"  {each.name} " not in said] == []


@pytest.mark.parametrize("command", ["zoo", "formats", "doctor"])
def test_json_is_alone_on_stdout(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([command, "--json"])
    said = capsys.readouterr()
    assert json.loads(said.out)
    assert said.err == ""
