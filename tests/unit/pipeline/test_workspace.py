"""The folder of a command that was refused before it did anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.commands.workspace import check_writable, remove_if_unused


def refuse(folder: Path, *files: str) -> None:
    with pytest.raises(BadRequest), remove_if_unused(folder):
        check_writable(folder)
        for name in (*files, "logs/plan.json", "repeat/none.sh"):
            (folder / name).parent.mkdir(exist_ok=True, parents=True)
            (folder / name).write_text("{}")
        raise BadRequest("no such file", fix="name another")


def test_a_folder_in_which_no_step_ran_is_gone_with_those_above_it(tmp_path: Path) -> None:
    refuse(tmp_path / "deep" / "er" / "made")
    assert list(tmp_path.iterdir()) == []


def test_logs_of_steps_stay(tmp_path: Path) -> None:
    refuse(tmp_path / "made", "logs/describe.log")
    assert (tmp_path / "made" / "logs" / "describe.log").is_file()


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    refuse(tmp_path)
    assert (tmp_path / "logs" / "plan.json").is_file()
