"""The folder of a command, and what the models of a command share."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.commands.workspace import (
    check_writable,
    new_context,
    remove_if_unused,
    shared_workers,
)
from transload.pipeline.context import LocalSettings
from transload.pipeline.progress import Progress
from transload.pipeline.request import read_request
from transload.pipeline.workers.isolation import Limits


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


def test_models_of_a_command_share_frameworks_until_its_end(tmp_path: Path) -> None:
    local, progress = LocalSettings(store=tmp_path / "store"), Progress(io.StringIO(), quiet=True)
    with shared_workers(tmp_path, local, progress) as workers:
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            executor = new_context(read_request(None, {}), tmp_path / name, local, progress, workers).executor
            executor.expect([name], Limits())
            executor.close()
        assert workers.frameworks is not None
        assert set(workers.frameworks.expected) == {"first", "second"}
    assert not workers.frameworks.expected
    assert not (tmp_path / ".scratch").exists()
