"""A user's function as the metric: one number or a score a sample, with a unit and a direction of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from transload.models.dataset import TEST, Dataset, write_dataset
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.signature import Signature, TensorSpec
from transload.models.sources import CodeRef
from transload.pipeline.drift.answer_shards import write_series
from transload.pipeline.drift.metrics.function_metric import FunctionMetric, check_function, describe_function
from transload.pipeline.drift.metrics.metric_kinds import MetricKind
from transload.pipeline.drift.recorded_answers import ANSWERS, ReferenceRecord, write_record

OWN = """
import numpy as np

def mean_error(outputs, labels):
    return np.abs(outputs["y"] - labels).mean()

def errors(outputs, labels):
    return np.abs(outputs["y"] - labels)

def raises(outputs, labels):
    return outputs["logits"]

def shapeless(outputs, labels):
    return np.zeros((2, 2))

mean_error.unit = "mm"
mean_error.higher_is_better = False
raises.unit = 3
number = 3
"""


def row_of(folder: Path, name: str) -> dict[str, object]:
    (folder / "own.py").write_text(OWN)
    rng = np.random.default_rng(0)
    labels = rng.normal(size=50)
    reference, candidate = labels + rng.normal(size=50), labels + rng.normal(size=50)
    kind = MetricKind(name, "mm", higher_is_better=False)
    pairs = FunctionMetric(kind, CodeRef(f"own.py:{name}", str(folder))).open(labels, [])
    for start, stop in ((0, 20), (20, 50)):
        pairs.add({"y": reference[start:stop]}, {"y": candidate[start:stop]}, labels[start:stop])
    return pairs.result(None).row


def test_a_number_and_a_score_a_sample_give_one_row(tmp_path: Path) -> None:
    whole, scores = row_of(tmp_path, "mean_error"), row_of(tmp_path, "errors")
    for key in ("reference", "candidate", "delta", "unit", "higher_is_better"):
        assert whole[key] == pytest.approx(scores[key])
    low, high = whole["ci95"], scores["ci95"]
    assert low == pytest.approx(high, abs=0.1)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("raises", "the metric raises raised KeyError: 'logits'"),
        ("shapeless", "the metric shapeless gave the shape [2, 2] for 50 samples"),
        ("number", "own.py:number is a int, and no function"),
    ],
)
def test_a_function_that_is_no_metric_is_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        row_of(tmp_path, name)
    assert caught.value.what == words


def describe(folder: Path, name: str) -> object:
    (folder / "own.py").write_text(OWN)
    return describe_function(Job({}, folder, {"ref": f"own.py:{name}", "root": str(folder)}))


def test_a_function_says_its_unit_and_direction(tmp_path: Path) -> None:
    assert describe(tmp_path, "mean_error") == {"name": "mean_error", "unit": "mm", "higher_is_better": False}
    assert describe(tmp_path, "errors") == {"name": "errors"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("raises", "own.py:raises has the unit 3 and higher_is_better True"),
        ("missing", "own.py holds no missing"),
    ],
)
def test_what_a_function_says_of_itself_is_checked(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        describe(tmp_path, name)
    assert caught.value.what == words


def check(folder: Path, name: str) -> object:
    """Call the function once, as before any copy is asked."""
    folder = folder / name
    folder.mkdir()
    (folder / "own.py").write_text(OWN)
    samples, data, reference = np.arange(6, dtype=np.float32), folder / "data", folder / "reference"
    for place in (data, reference):
        place.mkdir(exist_ok=True)
    write_dataset(data / TEST, Dataset({"x": samples}, samples))
    signature = Signature((TensorSpec("x", "float32", ("batch",)),), (TensorSpec("y", "float32", ("batch",)),))
    write_record(reference, ReferenceRecord(signature, (), chunk=4))
    write_series(reference / ANSWERS, [{"y": samples[:4]}, {"y": samples[4:]}])
    inputs = {"data": data, "reference": reference}
    return check_function(Job(inputs, folder, {"ref": f"own.py:{name}", "root": str(folder)}))


def test_a_function_is_called_once_before_any_copy_is_asked(tmp_path: Path) -> None:
    assert check(tmp_path, "errors") == {}
    with pytest.raises(BadRequest) as caught:
        check(tmp_path, "raises")
    assert caught.value.what == "the metric raises raised KeyError: 'logits'"
