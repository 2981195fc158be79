"""`validate` and `bench` with the URLs of a model that is served on loopback, without a framework behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from transload import bench, validate
from transload.models.errors import BadRequest
from transload.pipeline.cli import main
from transload.pipeline.result.schema import Verdict


def write_double(path: Path, *, factor: float = 2.0, dtype: int = TensorProto.FLOAT) -> str:
    """Write y = factor x, which is what the served session of one input answers with a factor of 2."""
    x, y = (helper.make_tensor_value_info(name, dtype, ["batch", 2]) for name in "xy")
    constant = helper.make_tensor("factor", dtype, [], [factor])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "factor"], ["y"])], "double", [x], [y], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return str(path)


@pytest.fixture
def local(tmp_path: Path) -> dict[str, Any]:
    return {"runs": tmp_path / "runs", "store": tmp_path / "store", "jobs": 2}


def urls(one: Any) -> list[str]:
    rest, grpc = one.addresses["rest"], one.addresses["grpc"]
    return [f"{place}/{api}/models/m" for api in ("v1", "v2") for place in (f"http://{rest}", f"grpc://{grpc}")]


def test_a_served_model_is_validated_in_its_protocol(one: Any, local: dict[str, Any], tmp_path: Path) -> None:
    served, reference = urls(one), write_double(tmp_path / "double.onnx")
    result = validate(*served, against=reference, batches=[1, 3], **local)
    assert result.decided[0] is Verdict.PASS, result.gate
    rows = {(row.artifact, row.runtime) for row in result.drift if row.samples > 8 and row.verdict is Verdict.PASS}
    assert rows == set(zip(served, ("tfserving-rest", "tfserving-grpc", "oip-http", "oip-grpc"), strict=True))
    assert {row.limit for row in result.gate if row.rule == "answers"} == {"answers"}  # on whichever device


def test_wrong_answers_of_a_served_model_fail_as_those_of_a_copy_do(
    one: Any, local: dict[str, Any], tmp_path: Path
) -> None:
    reference, copy = write_double(tmp_path / "other.onnx", factor=2.001), write_double(tmp_path / "double.onnx")
    served = urls(one)[3]
    result = validate(copy, served, against=reference, batches=[1, 3], **local)
    assert result.decided[0] is Verdict.FAIL
    failed = {row.artifact: row.got for row in result.gate if row.rule == "drift" and row.verdict is Verdict.FAIL}
    assert failed[served] == failed["onnx"]
    assert served not in result.diverging  # nothing can be followed inside a served model


def test_a_served_model_that_is_lost_meanwhile_gives_no_answer(one: Any, local: dict[str, Any], tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("boom")

    one.session.act = fail
    result = validate(urls(one)[0], against=write_double(tmp_path / "double.onnx"), batches=[1], **local)
    (rule,) = [row for row in result.gate if row.rule == "answers"]
    assert (rule.verdict, result.decided[0]) == (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE)
    assert "numpy gave no answer to inputs that fit the signature: boom" in str(rule.got)


def test_another_dtype_is_one_sentence(one: Any, local: dict[str, Any], tmp_path: Path) -> None:
    served, reference = urls(one)[0], write_double(tmp_path / "wide.onnx", dtype=TensorProto.DOUBLE)
    with pytest.raises(BadRequest) as caught:
        validate(served, against=reference, **local)
    assert caught.value.what == f"{served} takes x=float32[batch,2], and {reference} takes x=float64[batch,2]"


def test_nobody_at_a_url_is_two_lines_and_status_4(
    one: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    served, reference = urls(one)[0], write_double(tmp_path / "double.onnx")
    one.server.close()
    assert main(["validate", served, "--against", reference, "--quiet"]) == 4
    what, fix = capsys.readouterr().err.splitlines()
    assert what.startswith(f"error: {served}: {one.addresses['rest']} gives no answer")
    assert fix == "  fix: check host, port and model, and that it is started"


def test_a_served_model_is_measured_beside_an_artifact_and_marked(
    one: Any, local: dict[str, Any], tmp_path: Path
) -> None:
    served, copy = urls(one)[2], write_double(tmp_path / "double.onnx")
    result = bench(served, copy, against=copy, batches=[1], rounds=3, processes=1, budget_s=0, **local)
    rows = {row.artifact: row for row in result.latency}
    address = one.addresses["rest"]
    assert (rows[served].runtime, rows[served].server, rows[served].device) == ("oip-http", "remote", "cuda:3")
    assert rows[served].peak_rss_bytes is None
    network = f"served at {address}: its time includes the network and that server, the reference's does not"
    assert network in rows[served].doubts
    assert not any("network" in doubt for doubt in rows["onnx"].doubts)
    document = json.loads((result.folder / "bench.json").read_text())
    assert [row["server"] for row in document["latency"]] == [None, "remote", None]
    alone = bench(served, copy, batches=[1], rounds=3, processes=1, budget_s=0, **local)
    (only,) = bench(served, batches=[1], rounds=3, processes=1, budget_s=0, **local).latency
    assert (only.artifact, only.ratio_to_reference) == (served, 1.0)
    words = f"its ratio is to a model served at {address}, whose time includes the network"
    assert words in next(row for row in alone.latency if row.artifact == "onnx").doubts
