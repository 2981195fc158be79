"""The folder of a command, and what the models of a command share."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from transload.models.errors import BadRequest, DiskFull, StepFailed, ToolMissing
from transload.pipeline.commands.workspace import (
    check_writable,
    close_workers,
    new_context,
    new_run_context,
    remove_if_unused,
    shared_workers,
)
from transload.pipeline.options.request import read_request
from transload.pipeline.plan.context import LocalSettings
from transload.pipeline.progress.progress import Progress
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


REFUSED = BadRequest("no such file", fix="name another")
ENDS: dict[str, tuple[BaseException, bool]] = {
    "refused": (REFUSED, True),
    "a library that is missing": (ToolMissing("no such library", fix="install it"), True),
    "a full disk": (DiskFull("the disk is full", fix="free some space"), False),
    "a step that fails": (StepFailed("it died", fix="read its log"), False),
    "Ctrl-C": (KeyboardInterrupt(), False),
}


def leave(folder: Path, end: BaseException, *files: str) -> None:
    with pytest.raises(type(end)), remove_if_unused(folder, kept_logs=folder.parent / "refused"):
        check_writable(folder)
        for name in ("logs/describe.log", "repeat/describe.sh", "plan.json", *files):
            (folder / name).parent.mkdir(exist_ok=True, parents=True)
            (folder / name).write_text("said")
        raise end


@pytest.mark.parametrize("case", ENDS)
def test_a_refused_command_leaves_nothing_but_its_logs_elsewhere(case: str, tmp_path: Path) -> None:
    end, is_gone = ENDS[case]
    leave(tmp_path / "deep" / "made", end)
    assert (tmp_path / "deep" / "made").exists() != is_gone
    assert (tmp_path / "deep" / "refused" / "describe.log").exists() == is_gone


@pytest.mark.parametrize("case", ENDS)
def test_what_lay_there_before_stays(case: str, tmp_path: Path) -> None:
    end, is_gone = ENDS[case]
    (tmp_path / "made" / "onnx").mkdir(parents=True)
    leave(tmp_path / "made", end)
    assert {path.name for path in (tmp_path / "made").iterdir()} == {"onnx"} | (
        set() if is_gone else {"logs", "repeat", "plan.json"}
    )


def test_a_folder_with_a_result_stays(tmp_path: Path) -> None:
    leave(tmp_path / "made", REFUSED, "onnx/model.onnx")
    assert (tmp_path / "made" / "logs" / "describe.log").is_file()


@pytest.mark.parametrize("executor", ["local", "moon"])
def test_a_run_that_is_refused_leaves_no_folder(executor: str, tmp_path: Path) -> None:
    local = LocalSettings(store=tmp_path / "store", runs=tmp_path / "runs", executor=executor)
    with pytest.raises(BadRequest):
        context = new_run_context(read_request(None, {}), "net", local, Progress(io.StringIO(), quiet=True))
        with close_workers(context):
            context.executor.log("describe").write_text("Traceback")
            raise REFUSED
    assert list((tmp_path / "runs").glob("*")) == []
    assert (tmp_path / "store" / "refused" / "describe.log").exists() == (executor == "local")


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
