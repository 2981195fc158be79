"""The folder of a list: what a kill leaves, what --resume keeps, and the pages over all models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.commands.model_list.list_folder import ListFolder, locked_list, request_digest
from transload.pipeline.plan.models_file import read_models_file
from transload.pipeline.result.failure_kinds import FailureKind
from transload.pipeline.result.list_records import ListCommand, ModelRow, RowState, decide_list
from transload.pipeline.result.schema import Verdict
from transload.pipeline.show.models_text import cause_lines, list_headline

from .list_samples import failure, row


def planned(*names: str) -> list[ModelRow]:
    return [replace(row(name, state=RowState.NOT_STARTED), folder=None, targets=()) for name in names]


def test_finished_models_of_the_same_request_are_kept(tmp_path: Path) -> None:
    first = ListFolder(tmp_path, ListCommand.CONVERT, planned("a", "b", "c", "d", "e"))
    for name, status in (("a", 0), ("b", 4), ("c", 2), ("d", 0), ("e", 0)):
        first.record(row(name, *([failure("no")] if status else []), status=status))
        (tmp_path / name / "onnx").mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "onnx" / "model.onnx").touch()
    (tmp_path / "e" / "onnx" / "model.onnx").unlink()
    rows = planned("a", "b", "c", "d", "e")
    rows[3] = replace(rows[3], request="another")
    again = ListFolder(tmp_path, ListCommand.CONVERT, rows)
    assert again.keep_finished() == 2  # c was a bad input, d was requested otherwise, of e a file is gone
    assert [(row.name, row.state) for row in again.rows if row.state is RowState.DONE] == [
        ("a", RowState.DONE), ("b", RowState.DONE),
    ]  # fmt: skip


def test_one_command_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    with locked_list(tmp_path), pytest.raises(BadRequest, match="another transload works in"), locked_list(tmp_path):
        pass
    with locked_list(tmp_path):
        pass


def test_a_request_is_another_one_when_options_or_its_files_change(tmp_path: Path) -> None:
    net, file = tmp_path / "net.py", tmp_path / "models.toml"
    net.write_text("x = 1\n")

    def digest(options: str) -> str:
        file.write_text(f"[[model]]\nsource = 'net.py:Net'\nto = ['onnx']\n{options}")
        return request_digest(ListCommand.CONVERT, read_models_file(file)[0])

    first = digest("")
    assert digest("") == first
    assert digest("sqnr_db = 50.0\n") != first
    assert request_digest(ListCommand.VALIDATE, read_models_file(file)[0]) != digest("sqnr_db = 50.0\n")
    net.write_text("x = 12\n")
    assert digest("") != first


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [((0, 0), 0), ((0, 3), 3), ((3, 1), 1), ((1, 4), 4), ((4, 2), 2), ((2, 70), 70), ((0, None), 3), ((4, None), 4)],
)
def test_the_worst_model_decides_and_what_is_not_done_is_no_evidence(
    statuses: tuple[int | None, ...], worst: int
) -> None:
    rows = [
        row(str(at), status=status or 0, state=RowState.NOT_STARTED if status is None else RowState.DONE)
        for at, status in enumerate(statuses)
    ]
    verdict = {0: Verdict.PASS, 3: Verdict.INCONCLUSIVE}.get(worst, Verdict.FAIL)
    assert decide_list(rows) == (verdict, worst)


def test_the_pages_have_every_model_every_cause_and_no_markup_of_strangers(tmp_path: Path) -> None:
    folder = ListFolder(tmp_path, ListCommand.CONVERT, planned("a", "b", "c"))
    folder.record(row("a"))
    folder.record(row("b", failure("<script>alert(1)</script> | no", kind=FailureKind.REFUSED), status=4))
    result = folder.write()
    assert list_headline(result) == "1 of 3 models pass, 1 fail, 1 not started; 1 of 1 targets verified"
    assert list(cause_lines(result)) == [
        "1 model, refused: onnx2tf: <script>alert(1)</script> | no", "  in b (tflite)", "  fix: write it otherwise",
    ]  # fmt: skip
    page, text = (tmp_path / "index.html").read_text(), (tmp_path / "report.md").read_text()
    for name in "abc":
        assert f'<tbody id="{name}">' in page
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert 'href="b/logs/a.log"' in page
    assert "<script>" not in text
    assert "- b tflite: [log](b/logs/a.log)" in text
