"""The table of `validate`: a row for each copy and runtime, which the worst batch decides, or a row for each batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from transload.models.errors import Exit
from transload.pipeline.cli import main
from transload.pipeline.cli.validate import _lines
from transload.pipeline.commands.validate import ValidateResult
from transload.pipeline.result.schema import DriftRow, Verdict
from transload.pipeline.show.tables.check_tables import agreement_table

from . import samples

WHOLE = samples.drift("onnx", "onnxruntime", 130.0, task=samples.metric(0, 0, 0))
SMALL = samples.drift("onnx", "onnxruntime", 120.0, batch=1)
EQUAL = samples.drift("onnx", "onnxruntime", None, batch=8)
OTHER = samples.drift("onnx", "openvino", 110.0)


def test_a_row_holds_all_batches_of_a_copy_in_a_runtime() -> None:
    head, *rows = agreement_table([WHOLE, SMALL, EQUAL, OTHER]).texts()
    assert head == ("artifact", "runtime", "batches", "samples", "agreement", "metric", "verdict")
    assert [(*row[:5], row[6]) for row in rows] == [
        ("onnx", "onnxruntime", "3", "360", "120 dB", "pass"), ("onnx", "openvino", "1", "360", "110 dB", "pass"),
    ]  # fmt: skip
    assert rows[0][5].startswith("accuracy 98.33 %"), "of the whole test set: the worst batch has no metric"
    assert rows[1][5] == ""


@pytest.mark.parametrize(
    ("worst", "shown"),
    [
        (replace(WHOLE, verdict=Verdict.FAIL), ("130 dB", "fail")),  # its verdict, not the least agreement of others
        (replace(EQUAL, verdict=Verdict.INCONCLUSIVE), ("identical", "inconclusive")),
        (samples.silent(EQUAL), ("no answer", "fail")),
        (replace(EQUAL, mismatch="other names", verdict=Verdict.FAIL), ("other form", "fail")),
        (replace(SMALL, non_finite=1, verdict=Verdict.FAIL), ("NaN or inf", "fail")),
        (replace(SMALL, non_finite=1, lost="a note"), ("120 dB", "pass")),
    ],
)
def test_the_worst_batch_decides_verdict_and_agreement(worst: DriftRow, shown: tuple[str, str]) -> None:
    rows = [*(row for row in (WHOLE, SMALL, EQUAL) if row.batch != worst.batch), worst]
    (row,) = agreement_table(rows).texts()[1:]
    assert (row[4], row[6]) == shown


def test_all_prints_a_row_for_every_batch_and_json_has_them_anyway() -> None:
    done = ValidateResult((WHOLE, SMALL, EQUAL), (), (Verdict.PASS, Exit.PASS), Path("runs/1"))
    short = _lines(done, [], every_batch=False)
    assert [line.split()[:3] for line in short[:2]] == [
        ["runtime", "batches", "samples"], ["onnxruntime", "3", "360"],
    ]  # fmt: skip
    assert short[2] == ""
    batches = [line.split()[1] for line in _lines(done, [], every_batch=True)[:4]]
    assert batches == ["batch", "360", "1", "8"]
    assert len(done.document["drift"]) == 3


def test_a_models_file_refuses_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["validate", str(tmp_path / "models.toml"), "--all", "--out", str(tmp_path / "o")]
    assert main(words) == 2
    assert capsys.readouterr().err == "error: --all is for one model\n  fix: leave it out\n"
