"""The work units of drift over runtimes that are made up, each wrong in a way of its own; and one that is real."""

from __future__ import annotations

import re
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from transload.models.artifact import write_artifact
from transload.models.dataset import Dataset, read_dataset, write_dataset
from transload.models.errors import BadRequest, SessionLost, ToolMissing
from transload.models.formats import Format, Precision, Target
from transload.models.job import Job
from transload.models.probes.probe_set import Probe
from transload.models.signature import Array, Signature, TensorSpec, check_feeds
from transload.pipeline.drift import check, jobs, sessions
from transload.pipeline.drift.answer_shards import RecordedSeries
from transload.pipeline.drift.metrics.chosen_metric import RecipeMetric
from transload.pipeline.drift.metrics.metric_kinds import MetricChoice
from transload.pipeline.drift.recorded_answers import read_calls, read_record, write_calls
from transload.pipeline.drift.reference import answer
from transload.pipeline.result.schema import DriftRow, MetricRow, Tolerance, Verdict
from transload.serving.runtimes.runtime_table import RUNTIMES, Runtime

SAMPLES = 50
WEIGHTS = np.random.default_rng(3).normal(size=(4, 4)).astype(np.float32)
SIGNATURE = Signature((TensorSpec("x", "float32", ("batch", 4)),), (TensorSpec("y", "float32", ("batch", 4)),))
Model = Callable[[Array], Mapping[str, Array]]


def right(x: Array) -> Mapping[str, Array]:
    return {"y": x @ WEIGHTS}


class FakeSession:
    """A model that is a function."""

    signature = SIGNATURE

    def __init__(self, model: Model, device: str = "cpu") -> None:
        self.model, self.device, self.closed = model, device, False

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        check_feeds(SIGNATURE.inputs, feeds)
        return self.model(feeds["x"])

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(SAMPLES, 4)).astype(np.float32)
    (tmp_path / "data").mkdir()
    write_dataset(tmp_path / "data" / "test.npz", Dataset({"x": x}, (x @ WEIGHTS).argmax(1)))
    return tmp_path / "data"


@pytest.fixture
def runtimes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes the runtime "onnxruntime" a function, or something that raises."""
    module = ModuleType("made_up_runtime")
    monkeypatch.setitem(sys.modules, "made_up_runtime", module)
    fake = Runtime("onnxruntime", (Format.ONNX,), "made_up_runtime:open_session", ())
    monkeypatch.setattr(sessions, "RUNTIMES", {**RUNTIMES, "onnxruntime": fake})

    def install(model: Model | Exception, device: str = "cpu") -> None:
        def open_session(folder: Path, asked: str, threads: int) -> FakeSession:
            if isinstance(model, Exception):
                raise model
            return FakeSession(model, device)

        module.open_session = open_session  # type: ignore[attr-defined]

    return install  # type: ignore[return-value]


def artifact(tmp_path: Path, precision: str = "fp32") -> Path:
    folder = tmp_path / f"artifact-{precision}"
    folder.mkdir(exist_ok=True)
    (folder / "model.onnx").write_bytes(b"")
    write_artifact(folder, Target(Format.ONNX, Precision(precision)), SIGNATURE)
    return folder


@pytest.fixture
def reference(tmp_path: Path, data: Path, runtimes: Callable[..., None]) -> Path:
    runtimes(right)
    out = tmp_path / "reference"
    out.mkdir()
    job = Job({"model": artifact(tmp_path), "data": data}, out, {"runtime": "onnxruntime", "chunk": 16})
    assert answer(job) == {"device": "cpu", "samples": SAMPLES, "refused": {}}
    return out


@pytest.fixture
def job(tmp_path: Path, data: Path, reference: Path) -> Callable[..., Job]:
    def make(precision: str = "fp32", **options: Any) -> Job:
        inputs = {"artifact": artifact(tmp_path, precision), "data": data, "reference": reference}
        return Job(inputs, tmp_path, {"runtime": "onnxruntime", **options})

    return make


def test_the_reference_is_recorded_call_by_call(reference: Path, data: Path) -> None:
    calls = RecordedSeries(reference / "answers")
    record = read_record(reference)
    assert (record.chunk, len(calls), record.signature) == (16, 4, SIGNATURE)
    assert [len(call["y"]) for call in calls] == [16, 16, 16, 2]
    probes = read_calls(reference / "probes.npz")
    assert [(len(calls), len(calls[0]["y"])) for calls in probes] == [(4, 1), (2, 2), (4, 5), (1, 65)]
    assert record.probes == (Probe(1), Probe(2), Probe(5), Probe(65))


def test_no_more_than_a_few_calls_of_the_test_set_are_in_memory(tmp_path: Path, runtimes: Callable[..., None]) -> None:
    def wide(x: Array) -> Mapping[str, Array]:
        return {"y": np.tile(x @ WEIGHTS, (1, 500))}

    runtimes(wide)
    x = np.random.default_rng(8).normal(size=(8000, 4)).astype(np.float32)
    (tmp_path / "data").mkdir()
    write_dataset(tmp_path / "data" / "test.npz", Dataset({"x": x}, (x @ WEIGHTS).argmax(1)))
    inputs = {"model": artifact(tmp_path), "artifact": artifact(tmp_path), "data": tmp_path / "data"}
    metric = MetricChoice(name="accuracy", output="y").to_json()
    import scipy.stats  # noqa: F401  (not counted: an interval of a metric imports it)

    tracemalloc.start()
    try:
        answer(Job(inputs, tmp_path, {"runtime": "onnxruntime"}))
        facts = jobs.validate(
            Job({**inputs, "reference": tmp_path}, tmp_path, {"runtime": "onnxruntime", "metric": metric})
        )
        assert tracemalloc.get_traced_memory()[1] < 32 << 20, "the answers are 61 MB a side"
    finally:
        tracemalloc.stop()
    assert (facts["rows"][0]["samples"], facts["rows"][0]["verdict"]) == (8000, "pass")
    assert facts["rows"][0]["metric"]["reference"] == 1.0


def test_a_right_copy_passes_everywhere(job: Callable[..., Job]) -> None:
    facts = jobs.validate(job())
    assert [(row["batch"], row["samples"], row["verdict"]) for row in facts["rows"]] == [
        (16, 50, "pass"),
        (1, 4, "pass"),
        (2, 4, "pass"),
        (5, 20, "pass"),
        (65, 50, "pass"),
    ]
    assert (facts["device"], facts["reason"], facts["note"]) == ("cpu", None, None)
    assert {**jobs.verify(job()), "evidence": None} == {
        "evidence": None,
        "status": "verified",
        "reason": "agrees to the last bit at batches 1, 2, 5, 65",
        "sqnr_db": None,
        "batches": [1, 2, 5, 65],
        "sizes": {},
    }


def test_every_probe_is_told_with_its_question_and_its_limit(
    job: Callable[..., Job], runtimes: Callable[..., None]
) -> None:
    asked = job()
    runtimes(lambda x: {"y": right(x)["y"] * np.float32(1.01 if len(x) == 5 else 1)})
    rows = jobs.validate(asked)["evidence"]["probes"]
    assert [(row["values"], row["batch"], row["samples"]) for row in rows] == [
        ("whole test set", 16, 50),
        ("samples", 1, 4),
        ("samples", 2, 4),
        ("samples", 5, 20),
        ("samples", 65, 50),
    ]
    assert {row["runtime"] for row in rows} == {"onnxruntime"}
    failed = [row for row in rows if row["verdict"] != "pass"]
    assert [row["batch"] for row in failed] == [5]
    assert failed[0]["sqnr_db"] == pytest.approx(40, abs=0.1)
    assert failed[0]["tolerance"]["sqnr_db"] == pytest.approx(95, abs=1)
    assert failed[0]["derivation"] == "the model itself agrees to 130 dB where its inputs differ in their last bits"
    assert "agrees to 40.0 dB, below 95 dB" in failed[0]["reason"]
    assert jobs.verify(asked)["evidence"]["probes"] == rows[1:]


def test_what_was_asked_is_told_and_what_of_the_declaration_was_not(job: Callable[..., Job], data: Path) -> None:
    (row,) = jobs.validate(job())["evidence"]["exercised"]
    x = read_dataset(data / "test.npz").inputs["x"]
    assert (row["runtime"], row["samples"], row["calls"]) == ("onnxruntime", SAMPLES, 4 + 4 + 2 + 4 + 1 + 1)
    assert row["axes"] == [
        {"axis": "batch", "declared": [1, None], "sizes": [1, 2, 5, 16, 65], "refused": [], "not_asked": [[66, None]]}
    ]
    assert row["inputs"] == [
        {
            "input": "x", "dtype": "float32", "least": x.min(), "most": x.max(), "least_magnitude": np.abs(x).min(),
            "non_finite": False, "declared": None, "not_asked": [],
        }
    ]  # fmt: skip
    (quick,) = jobs.verify(job())["evidence"]["exercised"]
    assert quick["axes"][0]["sizes"] == [1, 2, 5, 65]


def test_the_errors_of_the_test_set_are_told_and_not_those_of_probes(
    job: Callable[..., Job], runtimes: Callable[..., None]
) -> None:
    asked = job()
    runtimes(lambda x: {"y": right(x)["y"] * np.float32(1 + 1e-6)})
    evidence = jobs.validate(asked)["evidence"]
    assert [row["elements"] for row in evidence["errors"]] == [SAMPLES * 4]
    assert len(evidence["worst_samples"]) == 6
    assert all(row["label"] in "0123" for row in evidence["worst_samples"])
    assert {"errors", "worst_samples"}.isdisjoint(jobs.verify(asked)["evidence"])


def test_rows_are_rows_of_the_result(job: Callable[..., Job]) -> None:
    for row in jobs.validate(job())["rows"]:
        tolerance, verdict = Tolerance(**row.pop("tolerance")), Verdict(row.pop("verdict"))
        made = DriftRow(artifact="onnx", tolerance=tolerance, verdict=verdict, **row)
        assert made.tolerance == Tolerance(60.0, None)


WRONG: list[tuple[Model, str]] = [
    (lambda x: {"y": (x + np.float32(0.01)) @ WEIGHTS}, r"at batch 1: output y agrees to [\d.]+ dB, below 95 dB; "
     r"the model itself agrees to 130 dB where its inputs differ in their last bits"),
    (lambda x: {"y": -(x @ WEIGHTS)},
     r"at batch 1: output y agrees to -6.0 dB, below 95 dB; output y is the reference with the opposite sign"),
    (lambda x: {"z": x @ WEIGHTS}, "at batch 1: the outputs are called z, the reference's y; "
     "the outputs go by other names: z holds the reference's y"),
    (lambda x: {"y": (x @ WEIGHTS).astype(np.float64)}, "at batch 1: output y is float64, the reference's float32"),
    (lambda x: {"y": (x @ WEIGHTS)[:, :3]},
     r"at batch 1: output y has the shape \[1, 3\], the reference's \[1, 4\]"),
    (lambda x: {"y": np.repeat((x @ WEIGHTS)[:1], len(x), 0)},
     r"at batch 2: output y agrees to [-\d.]+ dB, below 95 dB; "
     "output y gives every sample the answer to sample 0: the batch was lost"),
    (lambda x: {"y": np.where(x > 1.2, np.nan, x @ WEIGHTS).astype(np.float32)},
     r"at batch 1: \d+ of 16 elements are NaN or infinite on one side only, first in output y"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "words"), WRONG)
def test_a_wrong_copy_is_wrong_with_a_sentence(
    job: Callable[..., Job], runtimes: Callable[..., None], model: Model, words: str
) -> None:
    asked = job()
    runtimes(model)
    found = jobs.verify(asked)
    assert found["status"] == "wrong"
    assert found["reason"] is not None
    assert re.fullmatch(words, found["reason"]), found["reason"]
    facts = jobs.validate(asked)
    assert facts["rows"][0]["verdict"] == "fail"
    assert facts["reason"].startswith("at batch 16: ")
    assert facts.get("silence") is None  # it has answered, if wrongly
    row = facts["rows"][0]
    assert (row["max_abs"] is None) == (row.get("mismatch") is not None)


def test_what_breaks_at_one_batch_only_is_found_there(job: Callable[..., Job], runtimes: Callable[..., None]) -> None:
    def dies_at_5(x: Array) -> Mapping[str, Array]:
        if len(x) == 5:
            raise SessionLost("onnxruntime gave no answer", fix="open it again")
        return right(x)

    asked = job()
    runtimes(dies_at_5)
    found = jobs.verify(asked)
    assert found["reason"] == "at batch 5: onnxruntime gave no answer"
    assert (found["status"], found["batches"]) == ("wrong", [1, 2, 65])
    facts = jobs.validate(asked)
    assert (facts["reason"], facts["silence"]) == (None, "at batch 5: onnxruntime gave no answer")
    rows = facts["rows"]
    assert [row["verdict"] for row in rows] == ["pass", "pass", "pass", "fail", "pass"]
    assert rows[3]["max_abs"] is None
    assert rows[3]["tolerance"] == {"sqnr_db": 60.0, "metric_loss": None}


def test_a_probe_that_died_names_the_tolerance_of_probes(
    job: Callable[..., Job], runtimes: Callable[..., None]
) -> None:
    def dies_at_5(x: Array) -> Mapping[str, Array]:
        if len(x) == 5:
            raise SessionLost("it died", fix="open it again")
        return right(x)

    asked = job("int8", allowed_loss=0.1)
    runtimes(dies_at_5)
    assert jobs.validate(asked)["rows"][3]["tolerance"] == {"sqnr_db": 10.0, "metric_loss": None}


def test_running_elsewhere_fails_every_row(job: Callable[..., Job], runtimes: Callable[..., None]) -> None:
    asked = job(device="cuda")
    facts = jobs.validate(asked)
    assert {row["verdict"] for row in facts["rows"]} == {"fail"}
    assert facts["silence"] == "at batch 16: asked to run on cuda:0, it runs on cpu"
    assert facts["device"] == "cpu"
    assert jobs.verify(asked)["status"] == "wrong"
    runtimes(right, "cuda:0")
    assert jobs.validate(asked)["reason"] is None


def noisy(scale: float) -> Model:
    def model(x: Array) -> Mapping[str, Array]:
        y = x @ WEIGHTS
        return {"y": (y + scale * np.sin(1000 * y)).astype(np.float32)}

    return model


def test_a_reduced_precision_is_judged_by_the_metric_on_the_whole_set_and_by_a_floor_at_probes(
    job: Callable[..., Job], runtimes: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from transload.models.training.objectives import accuracy

    monkeypatch.setattr(check, "metric_of", lambda options: RecipeMetric(accuracy("y")))
    asked = job("int8", allowed_loss=0.2)
    runtimes(noisy(0.05))
    facts = jobs.validate(asked)
    assert facts["reason"] is facts["note"] is None
    whole, *probes = facts["rows"]
    assert whole["tolerance"] == {"sqnr_db": None, "metric_loss": 0.2}
    metric = MetricRow(**whole["metric"])
    assert (metric.name, metric.reference) == ("accuracy", 1.0)
    assert metric.ci95[0] <= metric.delta <= metric.ci95[1]
    assert all(row["tolerance"] == {"sqnr_db": 10.0, "metric_loss": None} for row in probes)
    assert all(row["metric"] is None for row in probes)
    tight = jobs.validate(job("int8", allowed_loss=0.001))
    assert tight["rows"][0]["verdict"] == "inconclusive"
    assert tight["reason"] is None  # nothing failed; what is open is a note
    assert "which spans the allowed loss of 0.10 pp: about " in tight["note"]
    runtimes(noisy(5.0))
    assert jobs.validate(asked)["rows"][0]["verdict"] == "fail"


def test_a_metric_that_gives_no_number_decides_nothing(
    job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    from transload.models.recipe import Metric

    bad = Metric("odd", lambda outputs, labels: np.full(len(labels), np.nan))
    monkeypatch.setattr(check, "metric_of", lambda options: RecipeMetric(bad))
    facts = jobs.validate(job("int8", allowed_loss=0.1))
    assert facts["rows"][0]["verdict"] == "inconclusive"
    assert facts["note"] == "at batch 16: the metric odd gave no finite score for 50 of 50 samples"
    assert jobs.validate(job("fp32", allowed_loss=0.1))["rows"][0]["verdict"] == "pass"


def test_without_a_metric_a_pass_says_what_it_rests_on(job: Callable[..., Job], runtimes: Callable[..., None]) -> None:
    asked = job("int8", allowed_loss=0.01)
    runtimes(noisy(0.05))
    facts = jobs.validate(asked)
    assert {row["verdict"] for row in facts["rows"]} == {"pass"}
    assert facts["note"] == "no metric judges int8: 10 dB is a floor that only something broken misses"


def test_a_constant_reference_proves_nothing(
    tmp_path: Path, data: Path, job: Callable[..., Job], runtimes: Callable[..., None], reference: Path
) -> None:
    runtimes(lambda x: {"y": np.ones((len(x), 4), np.float32)})
    answer(Job({"model": artifact(tmp_path), "data": data}, reference, {"runtime": "onnxruntime"}))
    facts = jobs.validate(job())
    assert {row["verdict"] for row in facts["rows"]} == {"inconclusive"}
    said = "the reference's outputs do not vary over the samples: no evidence; "
    assert facts["note"].endswith(f"{said}give samples to which they do: --data FILE.npz")
    checked = jobs.verify(job())
    assert (checked["status"], checked["reason"].rpartition(": ")[2]) == ("unverified", "--data FILE.npz")


def test_a_reference_that_does_not_repeat_itself_is_refused(
    tmp_path: Path, data: Path, runtimes: Callable[..., None]
) -> None:
    rng = np.random.default_rng(1)
    runtimes(lambda x: {"y": (x @ WEIGHTS) * rng.integers(0, 2, size=(len(x), 4)).astype(np.float32)})
    with pytest.raises(BadRequest, match="two answers to the same inputs"):
        answer(Job({"model": artifact(tmp_path), "data": data}, tmp_path, {"runtime": "onnxruntime"}))


@pytest.mark.parametrize("gain", [3e4, 1.0])
def test_a_model_that_multiplies_rounding_errors_is_told_from_a_wrong_copy(
    job: Callable[..., Job], runtimes: Callable[..., None], gain: float
) -> None:
    asked, noise = job(), np.random.default_rng(0)

    def chaotic(x: Array) -> Array:
        return np.asarray(np.sin(gain * (x.astype(np.float64) @ WEIGHTS)), np.float32)

    runtimes(lambda x: {"y": chaotic(x)})
    answer(Job({**asked.inputs, "model": asked.inputs["artifact"]}, asked.inputs["reference"], asked.options))
    runtimes(lambda x: {"y": chaotic(x) + noise.normal(0, 0.002, (len(x), 4)).astype(np.float32)})
    facts = jobs.verify(asked)
    assert facts["status"] == ("unverified" if gain > 1 else "wrong")
    assert ("dB where its inputs differ in their last bits: it multiplies" in facts["reason"]) is (gain > 1)


def test_a_payload_that_no_runtime_opens_is_wrong_and_a_missing_runtime_is_not(
    job: Callable[..., Job], runtimes: Callable[..., None]
) -> None:
    asked = job()
    runtimes(BadRequest("onnxruntime cannot open model.onnx", fix="make it again"))
    assert jobs.verify(asked) == {
        "status": "wrong",
        "reason": "onnxruntime cannot open model.onnx",
        "sqnr_db": None,
        "batches": [],
        "sizes": {},
        "ran": False,
    }
    runtimes(ToolMissing("onnxruntime is not there", fix="install it"))
    with pytest.raises(ToolMissing):
        jobs.verify(asked)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"runtime": "abacus"}, "no runtime is called 'abacus'"),
    ({"batches": [1, 3]}, "the reference was not recorded at batch 3"),
    ({"batches": [0]}, r"probe batches are 1 or more, got \[0\]"),
    ({"runtime": "tfserving-grpc"}, "tfserving-grpc needs the address of a grpc server"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_wrong_requests_are_refused(job: Callable[..., Job], options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        jobs.validate(job(**options))


def test_a_reference_of_other_data_is_refused(job: Callable[..., Job], reference: Path, data: Path) -> None:
    asked = job()
    write_dataset(data / "test.npz", Dataset({"x": np.zeros((20, 4), np.float32)}))
    with pytest.raises(BadRequest, match="recorded on other data"):
        jobs.validate(asked)


def test_data_that_lacks_an_input_fails_with_both_sides_named(job: Callable[..., Job], data: Path) -> None:
    asked = job()
    write_dataset(data / "test.npz", Dataset({"image": np.zeros((SAMPLES, 4), np.float32)}))
    found = jobs.verify(asked)
    assert found["reason"] == "at batch 1: the model takes the inputs x, and the data has image"


def test_recorded_answers_come_back_whatever_the_outputs_are_called(tmp_path: Path) -> None:
    calls = [{"file": np.arange(3), "a/b": np.array(2.5), "allow_pickle": np.zeros((0, 2))} for _ in range(11)]
    write_calls(tmp_path / "x.npz", [calls, calls[:1]])
    back = read_calls(tmp_path / "x.npz")
    assert [len(found) for found in back] == [11, 1]
    assert list(back[0][10]) == ["file", "a/b", "allow_pickle"]
    np.testing.assert_array_equal(back[0][10]["a/b"], 2.5)


def test_a_real_runtime_end_to_end(tmp_path: Path, data: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the onnx package makes the model")
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    folder = artifact(tmp_path)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / "model.onnx")
    out = tmp_path / "out"
    out.mkdir()
    answer(Job({"model": folder, "data": data}, out, {"runtime": "onnxruntime"}))
    facts = jobs.verify(Job({"artifact": folder, "data": data, "reference": out}, tmp_path, {}))
    assert facts["status"] == "verified"


def test_a_copy_that_answers_otherwise_when_it_is_asked_again_is_unstable(
    job: Callable[..., Job], runtimes: Callable[..., None]
) -> None:
    seen: set[bytes] = set()

    def forgetful(x: Array) -> dict[str, Array]:
        known = x.tobytes() in seen
        seen.add(x.tobytes())
        return {"y": right(x)["y"] + np.float32(known)}

    runtimes(forgetful)
    facts = jobs.verify(job())
    assert facts["status"] == "wrong"
    assert facts["reason"].startswith("unstable: asked once more, at batch 1: output y agrees to ")


def test_a_copy_that_answers_otherwise_in_a_second_session_is_unstable(
    job: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = job()
    opened: list[int] = []

    def open_session(folder: Path, device: str, threads: int) -> FakeSession:
        opened.append(threads)
        offset = np.float32(threads - 1)
        return FakeSession(lambda x: {"y": right(x)["y"] + offset}, device)

    monkeypatch.setattr(sys.modules["made_up_runtime"], "open_session", open_session)
    facts = jobs.validate(asked)
    assert opened == [1, 2]
    assert facts["reason"].startswith("unstable: opened again with 2 threads, at batch 16: output y agrees to ")


@pytest.mark.parametrize(("dtype", "status"), [("float32", "unverified"), ("float16", "verified")])
def test_a_reduced_copy_that_reduced_nothing_is_not_verified(
    job: Callable[..., Job], tmp_path: Path, dtype: str, status: str
) -> None:
    import onnx
    from onnx import helper, numpy_helper

    asked = job("fp16")
    weights = numpy_helper.from_array(WEIGHTS.astype(dtype), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [], [], [weights])
    onnx.save(helper.make_model(graph), tmp_path / "artifact-fp16" / "model.onnx")
    facts = jobs.verify(asked)
    assert facts["status"] == status
    size = WEIGHTS.astype(dtype).nbytes
    assert facts["stored"] == {"weights": [{"dtype": dtype, "tensors": 1, "bytes": size}]}
    sentence = "nothing is reduced to fp16: all 1 weights are float32; use onnx:int8 or onnx"
    assert facts["reason"].endswith(sentence) == (status == "unverified")


def test_a_wrong_int8_copy_names_the_input_that_one_scale_cannot_serve(
    job: Callable[..., Job], data: Path, reference: Path, runtimes: Callable[..., None]
) -> None:
    from transload.models.dataset import read_dataset

    x = read_dataset(data / "test.npz", SIGNATURE.inputs).inputs["x"] * np.array([1200, 1, 1, 1], np.float32)
    write_dataset(data / "test.npz", Dataset({"x": x}, (x @ WEIGHTS).argmax(1)))
    runtimes(right)
    answer(Job({"model": job().inputs["artifact"], "data": data}, reference, {"runtime": "onnxruntime"}))
    runtimes(lambda x: {"y": (x * np.array([0.3, 1, 1, 1], np.float32)) @ WEIGHTS})
    facts = jobs.verify(job("int8"))
    assert facts["status"] == "wrong"
    assert re.search(
        r"below 10 dB.*; input `x`: column ranges differ by [\d,]+ x, .*: scale your inputs$", facts["reason"]
    )
