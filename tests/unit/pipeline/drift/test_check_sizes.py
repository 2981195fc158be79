"""Every dynamic axis at several sizes: copies that are right at one of them only, models that do not take every size,
and models without a batch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.artifact import write_artifact
from transload.models.dataset import Dataset, read_dataset, write_dataset
from transload.models.errors import BadRequest, SessionLost
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.probes.feeds import SAMPLES, sample_specs
from transload.models.probes.probe_set import Probe
from transload.models.probes.random_inputs import sample_tensors
from transload.models.probes.sizes import example_sizes
from transload.models.signature import Array, Signature, check_feeds, parse_input
from transload.pipeline.drift import jobs, reference
from transload.pipeline.drift.metrics.metric_kinds import MetricChoice
from transload.pipeline.drift.recorded_answers import read_record

Feeds = Mapping[str, Array]
Model = Callable[[Feeds], Array]
SEQUENCE = "x=float32[batch,tokens,4]"


class FakeSession:
    """A model that is a function of its feeds; it keeps the sizes of its axes in every call."""

    device = "cpu"

    def __init__(self, signature: Signature, model: Model) -> None:
        self.signature, self.model = signature, model
        self.calls: list[dict[str, int]] = []
        self.fed: list[Feeds] = []

    def run(self, feeds: Feeds) -> Mapping[str, Array]:
        self.calls.append(check_feeds(self.signature.inputs, feeds))
        self.fed.append(feeds)
        return {"y": np.asarray(self.model(feeds), np.float32)}

    def close(self) -> None:
        pass


class Held:
    """A reference and a copy of it, asked the same."""

    def __init__(self, inputs: tuple[str, ...], folder: Path, patch: pytest.MonkeyPatch) -> None:
        specs = tuple(map(parse_input, inputs))
        self.signature = Signature(specs, (parse_input("y=float32[any]"),))
        self.folder, self.patch = folder, patch
        sizes = {**example_sizes(specs, 1), SAMPLES: 12, self.signature.batch or SAMPLES: 12}
        write_dataset(folder / "test.npz", Dataset(sample_tensors(sample_specs(specs), sizes, seed=4)))

    def recorded(self, model: Model, **options: Any) -> FakeSession:
        session = FakeSession(self.signature, model)
        self.patch.setattr(reference, "open_for", lambda *_: session)
        inputs = {"model": self.folder, "data": self.folder}
        self.facts = reference.answer(Job(inputs, self.folder, {"runtime": "torch", **options}))
        return session

    def copied(
        self,
        model: Model,
        work: Callable[[Job], Mapping[str, Any]] = jobs.verify,
        signature: Signature | None = None,
        **options: Any,
    ) -> Mapping[str, Any]:
        self.copy = FakeSession(signature or self.signature, model)
        (self.folder / "model.onnx").touch()
        write_artifact(self.folder, Target(Format.ONNX), self.copy.signature)
        self.patch.setattr(jobs, "open_for", lambda *_: self.copy)
        inputs = {"artifact": self.folder, "data": self.folder, "reference": self.folder}
        return work(Job(inputs, self.folder, {"runtime": "onnxruntime", "precision": "fp32", **options}))


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Held]:
    return lambda *inputs: Held(inputs, tmp_path, monkeypatch)


def mean(feeds: Feeds) -> Array:
    return feeds["x"].mean(1)


def test_a_right_copy_says_at_which_sizes_it_was_seen(held: Callable[..., Held]) -> None:
    pair = held(SEQUENCE)
    asked = pair.recorded(mean)
    found = pair.copied(mean)
    assert (
        found["reason"]
        == "agrees to the last bit at batches 1, 2, 5, 65 and tokens 5, 4, 1, 65, 128, 257, 1025, 426, 425"
    )
    assert (found["status"], found["batches"]) == ("verified", [1, 2, 5, 65])
    assert found["sizes"] == {"tokens": [5, 4, 1, 65, 128, 257, 1025, 426, 425]}
    assert read_record(pair.folder).probes[:10] == (
        Probe(1), Probe(2), Probe(5), Probe(5, {"tokens": 4}), Probe(5, {"tokens": 1}), Probe(65),
        *(Probe(2, {"tokens": size}) for size in (65, 128, 257, 1025)),
    )  # fmt: skip
    sizes = {(call["batch"], call["tokens"]) for call in pair.copy.calls}
    assert sizes >= {(1, 5), (2, 5), (5, 5), (5, 4), (5, 1), (65, 5), *((2, size) for size in (65, 128, 257, 1025))}
    samples = read_dataset(pair.folder / "test.npz").inputs["x"]
    rounded = [np.isin(feeds["x"].astype(np.float16), samples.astype(np.float16)) for feeds in asked.fed]
    assert all(each.all() for each in rounded), "no value was made up, but for last bits"


def test_what_may_be_empty_is_asked_empty(held: Callable[..., Held]) -> None:
    pair = held("x=float32[batch,tokens=0..,4]")
    pair.recorded(lambda feeds: feeds["x"].sum(1))
    found = pair.copied(lambda feeds: feeds["x"].sum(1))
    assert (found["status"], found["sizes"]) == ("verified", {"tokens": [5, 4, 0, 65, 128, 257, 1025, 426, 425]})
    assert (
        found["reason"]
        == "agrees to the last bit at batches 1, 2, 5, 65 and tokens 5, 4, 0, 65, 128, 257, 1025, 426, 425"
    )
    wrong = pair.copied(lambda feeds: feeds["x"].sum(1) + (feeds["x"].shape[1] == 0))
    assert (wrong["status"], wrong["reason"].partition(":")[0]) == ("wrong", "at tokens=0")
    assert wrong["reason"].endswith("; where that size never comes, say so: tokens=1..")


def test_an_answer_that_holds_nothing_is_right_by_its_shape(held: Callable[..., Held]) -> None:
    pair = held("x=float32[batch,tokens=0..,4]")
    pair.recorded(lambda feeds: feeds["x"] * 2)
    assert pair.copied(lambda feeds: feeds["x"] * 2)["sizes"] == {"tokens": [5, 4, 0, 65, 128, 257, 1025, 426, 425]}
    wrong = pair.copied(lambda feeds: feeds["x"] * 2 if feeds["x"].size else np.zeros((5, 1, 4)))
    assert wrong["reason"].startswith("at tokens=0: output y has the shape [5, 1, 4], the reference's [5, 0, 4]; ")


def test_a_batch_that_may_be_empty_is_asked_empty(held: Callable[..., Held]) -> None:
    pair = held("boxes=float32[n=0..,4]")
    pair.recorded(lambda feeds: feeds["boxes"] * 2)
    found = pair.copied(lambda feeds: feeds["boxes"] * 2)
    assert found["reason"] == "agrees to the last bit at batches 1, 2, 5, 0, 65"
    wrong = pair.copied(lambda feeds: feeds["boxes"] * 2 if len(feeds["boxes"]) else np.zeros((1, 4)))
    assert wrong["reason"].startswith("at n=0: output y has the shape [1, 4], the reference's [0, 4]; ")


def test_a_model_that_does_not_answer_to_nothing_says_so(held: Callable[..., Held]) -> None:
    pair = held("x=float32[n=0..,4]")

    def top(feeds: Feeds) -> Array:
        if not len(feeds["x"]):
            raise BadRequest("max of nothing", fix="-")
        return np.broadcast_to(feeds["x"].max(0), feeds["x"].shape)

    pair.recorded(top)
    found = pair.copied(top)
    assert found["reason"] == "agrees to the last bit at batches 1, 2, 5 (the model itself does not answer at 0)"


def test_emptiness_is_no_second_size(held: Callable[..., Held]) -> None:
    """And samples of a user's in which an axis is empty have nothing to fill it with."""
    pair = held("x=float32[batch,tokens=0..,4]")
    data = {"x": np.zeros((12, 0, 4), np.float32)}
    write_dataset(pair.folder / "test.npz", Dataset(data))
    pair.recorded(lambda feeds: feeds["x"].sum(1) + np.arange(len(feeds["x"]))[:, None])
    found = pair.copied(lambda feeds: feeds["x"].sum(1) + np.arange(len(feeds["x"]))[:, None])
    assert found["status"] == "unverified"
    assert "one size of tokens is no evidence that it is dynamic" in found["reason"]


def test_a_copy_is_not_asked_at_sizes_that_it_says_it_is_not_for(held: Callable[..., Held]) -> None:
    pair = held(SEQUENCE)
    pair.recorded(mean)
    bounded = Signature((parse_input("x=float32[batch,tokens=3..,4]"),), pair.signature.outputs)
    found = pair.copied(mean, signature=bounded)
    assert found["status"] == "verified"
    assert found["reason"] == (
        "agrees to the last bit at batches 1, 2, 5, 65 and tokens 5, 4, 65, 128, 257, 1025, 426, 425 "
        "(this copy is for tokens=3.. alone)"
    )
    assert min(call["tokens"] for call in pair.copy.calls) == 4


def test_a_copy_is_not_asked_in_batches_that_it_says_it_is_not_for(held: Callable[..., Held]) -> None:
    pair = held(SEQUENCE)
    pair.recorded(mean)
    bounded = Signature((parse_input("x=float32[batch=2..,tokens,4]"),), pair.signature.outputs)
    found = pair.copied(mean, signature=bounded)
    assert (found["status"], found["batches"]) == ("verified", [2, 5, 65])
    assert found["reason"] == (
        "agrees to the last bit at batches 2, 5, 65 (this copy is for batch=2.. alone) "
        "and tokens 5, 4, 1, 65, 128, 257, 1025, 426, 425"
    )
    assert min(call["batch"] for call in pair.copy.calls) == 2


WRONG: list[tuple[Model, str]] = [
    (lambda feeds: np.sum(feeds["x"], 1) / 5,
     r"at tokens=4: output y agrees to [\d.]+ dB, below 95 dB; output y is the reference times 0\.8"),
    (lambda feeds: mean(feeds) if feeds["x"].shape[1] == 5 else mean(feeds)[:, :3],
     r"at tokens=4: output y has the shape \[5, 3\], the reference's \[5, 4\]"),
    (lambda feeds: mean(feeds) * (1 if feeds["x"].shape[1] > 1 else 2),
     r"at tokens=1: output y agrees to [-\d.]+ dB, below 95 dB; output y is the reference times 2; "
     r"where that size never comes, say so: tokens=2\.\."),
]  # fmt: skip


@pytest.mark.parametrize(("copy", "words"), WRONG)
def test_a_copy_that_is_right_at_one_size_only_is_wrong(held: Callable[..., Held], copy: Model, words: str) -> None:
    pair = held(SEQUENCE)
    pair.recorded(mean)
    found = pair.copied(copy)
    assert found["status"] == "wrong"
    assert re.fullmatch(words, found["reason"]), found["reason"]


def test_a_copy_that_dies_at_another_size_is_wrong_there(held: Callable[..., Held]) -> None:
    def dies(feeds: Feeds) -> Array:
        if feeds["x"].shape[1] != 5:
            raise SessionLost("tflite gave no answer", fix="open it again")
        return mean(feeds)

    pair = held(SEQUENCE)
    pair.recorded(mean)
    found = pair.copied(dies)
    assert (found["reason"], found["sizes"]) == ("at tokens=4: tflite gave no answer", {"tokens": [5]})
    assert found["batches"] == []


def test_of_one_batch_the_worst_size_is_the_row(held: Callable[..., Held]) -> None:
    pair = held(SEQUENCE)
    pair.recorded(mean)
    facts = pair.copied(lambda feeds: np.sum(feeds["x"], 1) / 5, jobs.validate)
    assert [(row["batch"], row["verdict"]) for row in facts["rows"]] == [
        (12, "pass"), (1, "fail"), (2, "fail"), (5, "fail"), (65, "fail"),
    ]  # fmt: skip
    assert facts["reason"].startswith("at tokens=4: ")
    good = pair.copied(mean, jobs.validate)
    assert [(row["batch"], row["samples"]) for row in good["rows"]] == [(12, 12), (1, 4), (2, 4), (5, 10), (65, 12)]


def test_bounds_are_kept_in_every_call(held: Callable[..., Held]) -> None:
    pair = held("x=float32[batch=4..6,tokens=2..9,4]")
    assert {call["batch"] for call in pair.recorded(mean).calls} == {4, 5, 6}
    found = pair.copied(lambda feeds: mean(feeds) * (2 if feeds["x"].shape[1] == 1 else 1))
    assert found["reason"] == "agrees to the last bit at batches 4, 5, 6 and tokens 5, 4, 2, 9, 8, 6, 3"
    assert found["status"] == "verified"


def refuses(*sizes: int) -> Model:
    def model(feeds: Feeds) -> Array:
        if feeds["x"].shape[1] in sizes:
            raise SessionLost("torch gave no answer: a kernel of 7", fix="open it again")
        return mean(feeds)

    return model


def test_what_the_reference_refuses_is_its_own_limit_and_another_size_is_taken(held: Callable[..., Held]) -> None:
    pair = held(SEQUENCE)
    pair.recorded(refuses(1, 2, 3, 4))
    found = pair.copied(mean)
    assert found["reason"] == (
        "agrees to the last bit at batches 1, 2, 5, 65 and tokens 5, 6, 65, 128, 257, 1025, 426, 425 "
        "(the model itself does not answer at 4, 2, 1)"
    )
    assert pair.facts["refused"]["tokens"][4] == "torch gave no answer: a kernel of 7"


def test_an_axis_that_was_seen_at_one_size_alone_is_not_verified(held: Callable[..., Held]) -> None:
    pair = held(SEQUENCE)
    pair.recorded(refuses(*range(5), *range(6, 1100)))
    found = pair.copied(mean)
    assert found["status"] == "unverified"
    assert found["reason"] == (
        "agrees to the last bit at batches 1, 2, 5, 65 and tokens 5 alone "
        "(the model itself does not answer at 4, 2, 6, 8, 10, 1); one size of tokens is no evidence that it is dynamic"
        ": write 5 for tokens in --input, or give the bounds within which it answers"
    )


def test_a_wrong_copy_is_wrong_where_an_axis_was_seen_at_one_size_alone_too(held: Callable[..., Held]) -> None:
    pair = held(SEQUENCE)
    pair.recorded(refuses(*range(5), *range(6, 1100)))
    assert pair.copied(lambda feeds: 2 * mean(feeds))["status"] == "wrong"


def test_a_reference_that_does_not_answer_at_all_names_the_sizes(held: Callable[..., Held]) -> None:
    pair = held(SEQUENCE)
    with pytest.raises(BadRequest) as caught:
        pair.recorded(refuses(5))
    assert caught.value.what == (
        "the model itself does not answer at batch=1, tokens=5: torch gave no answer: a kernel of 7"
    )
    assert caught.value.fix == (
        "give the sizes that it takes, as in --input x=float32[batch,tokens=6..,4], or --data FILE.npz"
    )


def test_where_ones_have_an_answer_the_integers_are_named_and_no_size(held: Callable[..., Held]) -> None:
    def model(feeds: Feeds) -> Array:
        if not feeds["count"].all():
            raise SessionLost("torch gave no answer: nothing to count", fix="ask otherwise")
        return feeds["x"].mean(axis=(1, 2))

    pair = held("x=float32[batch,tokens,4]", "ids=int64[batch]", "count=int64[batch]")
    with pytest.raises(BadRequest) as caught:
        pair.recorded(model)
    assert caught.value.what == (
        "the model itself does not answer at batch=5, tokens=5 to these integers of count, but to ones: torch gave no "
        "answer: nothing to count"
    )
    assert caught.value.fix == (
        "say which values it takes, as in --input x=float32[batch,tokens,4] --input ids=int64[batch] "
        "--input 'count=int64[batch] in 1..9', or give samples of yours: --data FILE.npz"
    )


def test_axes_of_two_inputs_that_may_be_one_are_told_to_get_one_name(held: Callable[..., Held]) -> None:
    def masked(feeds: Feeds) -> Array:
        if feeds["ids"].shape != feeds["mask"].shape:
            raise SessionLost("shapes differ", fix="")
        return feeds["ids"].sum(1)

    with pytest.raises(BadRequest) as caught:
        held("ids=int64[batch,ids_1]", "mask=float32[batch,mask_1]").recorded(masked)
    assert caught.value.fix == (
        "give axes that are of one size one name, as in --input ids=int64[batch,ids_1] "
        "--input mask=float32[batch,ids_1]"
    )


def test_axes_that_are_one_are_found_by_asking(held: Callable[..., Held]) -> None:
    def attention(feeds: Feeds) -> Array:
        if feeds["mask"].shape[1:] != (feeds["q"].shape[1], feeds["v"].shape[1]):
            raise SessionLost("shapes differ", fix="")
        return feeds["q"].sum((1, 2)) * feeds["v"].sum((1, 2))

    inputs = ("q=float32[batch=1..9,q_1,8]", "v=float32[batch=1..9,v_1,8]", "mask=bool[batch=1..9,mask_1,mask_2]")
    with pytest.raises(BadRequest) as caught:
        held(*inputs).recorded(attention)
    assert caught.value.fix.endswith(
        "as in --input q=float32[batch=1..9,q_1,8] --input v=float32[batch=1..9,v_1,8] "
        "--input mask=bool[batch=1..9,q_1,v_1]"
    )


def test_where_no_size_has_an_answer_the_inputs_are_named_with_some(held: Callable[..., Held]) -> None:
    with pytest.raises(BadRequest) as caught:
        held(SEQUENCE).recorded(refuses(*range(20_000)))
    assert "as in --input x=float32[batch,tokens=32..256,4], or --data" in caught.value.fix


def test_a_size_at_which_all_answers_are_alike_is_no_evidence_against_the_others(held: Callable[..., Held]) -> None:
    def softmax(feeds: Feeds) -> Array:
        powers = np.exp(feeds["x"])
        return powers / powers.sum(1, keepdims=True)

    pair = held(SEQUENCE)
    pair.recorded(softmax)
    found = pair.copied(softmax)
    assert found["status"] == "verified"
    assert found["reason"].endswith("tokens 5, 4, 65, 128, 257, 1025, 426, 425 (at 1 its answers are all alike)")


def test_a_size_at_which_the_reference_contradicts_its_own_signature_is_passed_over(held: Callable[..., Held]) -> None:
    """As TensorFlow's convolution does where the picture is smaller than the kernel."""

    def model(feeds: Feeds) -> Array:
        short = feeds["x"].shape[1] < 3
        return feeds["x"][:, :, :3] if short else feeds["x"].sum(1)

    for says, refused in (("y=float32[batch,4]", {"tokens": [1]}), ("y=float32[batch,7]", {})):
        one = held(SEQUENCE)
        one.signature = Signature(one.signature.inputs, (parse_input(says),))
        one.recorded(model)
        assert read_record(one.folder).refused == refused


def test_a_size_at_which_an_output_is_empty_is_passed_over(held: Callable[..., Held]) -> None:
    one = held(SEQUENCE)
    one.recorded(lambda feeds: feeds["x"][:, 2:])
    assert read_record(one.folder).constant == {"tokens": [1]}


def test_one_axis_under_two_names_is_varied_under_both(held: Callable[..., Held]) -> None:
    def both(feeds: Feeds) -> Array:
        if feeds["x"].shape[1] != feeds["mask"].shape[1]:
            raise SessionLost("shapes differ", fix="open it again")
        return (feeds["x"] * feeds["mask"][..., None]).sum(1)

    pair = held("x=float32[batch,time,4]", "mask=float32[batch,steps]")
    data = read_dataset(pair.folder / "test.npz").inputs
    write_dataset(pair.folder / "test.npz", Dataset({**data, "mask": data["mask"][:, :5]}))
    pair.recorded(both)
    assert pair.copied(both)["sizes"] == {"time": [5, 4, 1, 65, 128, 257, 1025], "steps": [5, 4, 1, 65, 128, 257, 1025]}


GRAPH = ("nodes=float32[nodes,4]", "edges=int64[2,edges]", "scale=float32[]")


def passes(feeds: Feeds) -> Array:
    if feeds["edges"].size and feeds["edges"].max() >= len(feeds["nodes"]):
        raise SessionLost("index out of range", fix="open it again")
    out = feeds["nodes"].copy()
    np.add.at(out, feeds["edges"][1], feeds["nodes"][feeds["edges"][0]] * feeds["scale"])
    return out


def test_a_graph_has_no_batch_and_is_asked_one_at_a_time(held: Callable[..., Held]) -> None:
    pair = held(*GRAPH)
    asked = pair.recorded(passes)
    assert all(feeds["scale"].shape == () for feeds in asked.fed)
    found = pair.copied(passes)
    assert found["reason"] == (
        "agrees to the last bit at nodes 5, 4, 65, 128, 257, 1025, 272, 367 (the model itself does not answer at 1) "
        "and edges 7, 5, 1, 65, 128, 257, 1025, 294, 285"
    )
    assert (found["status"], found["batches"]) == ("verified", [1])
    wrong = pair.copied(lambda feeds: passes({**feeds, "edges": feeds["edges"][:, :5]}))
    assert wrong["reason"].startswith("at nodes=5, edges=7: output y agrees to ")
    rows = pair.copied(passes, jobs.validate)["rows"]
    assert [(row["batch"], row["samples"], row["verdict"]) for row in rows] == [(1, 12, "pass"), (1, 12, "pass")]


def test_a_fixed_batch_is_asked_as_it_is(held: Callable[..., Held]) -> None:
    pair = held("x=float32[4,3]")
    asked = pair.recorded(lambda feeds: np.cumsum(feeds["x"], 0))
    assert {feeds["x"].shape for feeds in asked.fed} == {(4, 3)}
    right = pair.copied(lambda feeds: np.cumsum(feeds["x"], 0))
    assert (right["status"], right["reason"]) == ("verified", "agrees to the last bit in 12 calls")
    turned = pair.copied(lambda feeds: np.cumsum(feeds["x"], 0)[::-1])
    assert turned["reason"].endswith("output y equals the reference with axis 0 reversed (to the last bit)")


def test_without_a_batch_answers_vary_between_calls_and_not_within_one(held: Callable[..., Held]) -> None:
    pair = held("x=float32[4,3]")
    pair.recorded(lambda _: np.arange(12).reshape(4, 3))
    assert pair.copied(lambda _: np.arange(12).reshape(4, 3))["status"] == "unverified"


def test_a_batch_that_is_not_the_first_axis_is_varied_too(held: Callable[..., Held]) -> None:
    pair = held("x=float32[time,batch,4]")
    asked = pair.recorded(lambda feeds: feeds["x"].mean(0))
    usual = {(5, 1), (5, 2), (5, 5), (5, 12), (4, 5), (1, 5)}
    alone = {*usual, (5, 65), *((size, 2) for size in (65, 128, 257, 1025))}
    together = {(1025, 65), (1025, 1), (1, 65), (1, 1), (128, 65), (257, 65)}
    assert {(call["time"], call["batch"]) for call in asked.calls} >= alone | together


def test_a_real_copy_with_a_length_baked_in_is_wrong_at_another(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the onnx package makes the models")
    from onnx import TensorProto, helper, numpy_helper

    signature = Signature((parse_input("x=float32[batch,tokens=2..9,4]"),), (parse_input("y=float32[batch,4]"),))
    lengths = numpy_helper.from_array(np.array(5, np.float32), "length")
    axes = numpy_helper.from_array(np.array([1]), "axes")
    nodes = {
        "right": [helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)],
        "baked": [
            helper.make_node("ReduceSum", ["x", "axes"], ["sum"], keepdims=0),
            helper.make_node("Div", ["sum", "length"], ["y"]),
        ],
    }
    for name, made in nodes.items():
        graph = helper.make_graph(
            made,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "tokens", 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
            [lengths, axes],
        )
        (tmp_path / name).mkdir()
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        onnx.save(model, tmp_path / name / "model.onnx")
        write_artifact(tmp_path / name, Target(Format.ONNX), signature)
    x = np.random.default_rng(2).normal(size=(9, 5, 4)).astype(np.float32)
    write_dataset(tmp_path / "test.npz", Dataset({"x": x}))
    inputs = {"model": tmp_path / "right", "data": tmp_path}
    reference.answer(Job(inputs, tmp_path, {"runtime": "onnxruntime", "probes_only": True}))
    found = {
        name: jobs.verify(Job({"artifact": tmp_path / name, "data": tmp_path, "reference": tmp_path}, tmp_path, {}))
        for name in nodes
    }
    assert found["right"]["reason"] == "agrees to the last bit at batches 1, 2, 5, 65 and tokens 5, 4, 2, 9, 8, 6, 3"
    assert found["baked"]["status"] == "wrong"
    assert found["baked"]["reason"].startswith("at tokens=4: output y agrees to ")


def test_a_copy_that_is_wrong_only_for_long_or_odd_or_many_is_wrong(held: Callable[..., Held]) -> None:
    """Each passed while sizes were asked at 5, 4 and 1 and batches at 5 at most."""
    pair = held("x=float32[batch=1..128,tokens=1..64,4]")
    asked = pair.recorded(mean)
    assert max(call["batch"] for call in asked.calls) == 128
    assert {call["tokens"] for call in asked.calls} >= {5, 4, 1, 64, 63, 33, 32, 2}

    def wrong_where(batch: Callable[[int], bool], tokens: Callable[[int], bool]) -> str:
        def copy(feeds: Feeds) -> Array:
            samples, length = feeds["x"].shape[:2]
            return mean(feeds) * (2 if batch(samples) and tokens(length) else 1)

        found = pair.copied(copy)
        assert found["status"] == "wrong"
        return str(found["reason"]).partition(":")[0]

    assert wrong_where(lambda _: True, lambda length: length > 60) == "at tokens=64"
    assert wrong_where(lambda _: True, lambda length: length % 2 == 1 and length > 5) == "at tokens=63"
    assert wrong_where(lambda _: True, lambda length: length % 8 == 0 and length < 64) == "at tokens=32"
    assert wrong_where(lambda samples: samples > 64, lambda _: True) == "at batch 128"
    assert wrong_where(lambda samples: samples == 1, lambda length: length == 1) == "at batch 1, tokens=1"
    assert wrong_where(lambda samples: samples > 64, lambda length: length > 40) == "at batch 128, tokens=64"


def test_a_copy_that_gives_the_65th_sample_the_answer_of_the_first_is_wrong(held: Callable[..., Held]) -> None:
    pair = held(SEQUENCE)
    pair.recorded(mean)
    found = pair.copied(lambda feeds: mean(feeds)[np.arange(len(feeds["x"])) % 12])
    assert (found["status"], found["reason"].partition(":")[0]) == ("wrong", "at batch 65")


def test_a_large_batch_that_a_model_refuses_or_that_has_no_room_is_not_asked(held: Callable[..., Held]) -> None:
    def few(feeds: Feeds) -> Array:
        if len(feeds["x"]) > 20:
            raise SessionLost("too many", fix="")
        return mean(feeds)

    pair = held(SEQUENCE)
    pair.recorded(few)
    assert pair.copied(few)["batches"] == [1, 2, 5, 17]
    pair = held("x=float32[batch,tokens,4000]")
    pair.recorded(mean)
    assert pair.copied(mean)["batches"] == [1, 2, 5]


def test_what_of_a_declared_range_had_no_room_is_told(held: Callable[..., Held]) -> None:
    pair = held("x=float32[batch=1..64,tokens=1..4000,400]")
    pair.recorded(mean)
    found = pair.copied(mean)
    assert found["status"] == "verified"
    assert found["reason"] == (
        "agrees to the last bit at batches 1, 2, 5, 64, 33 and tokens 5, 4, 1, 65, 2 (not asked beyond 65 of 1..4000)"
    )


def doubled(feeds: Feeds) -> Array:
    return feeds["x"] * 2


@pytest.mark.parametrize(("batch", "calls"), [("batch=1..5", [5, 5, 2]), ("batch=4..5", [5, 5, 4]), ("8", [8, 8])])
def test_the_test_set_is_asked_in_calls_that_the_copy_takes(
    batch: str, calls: list[int], held: Callable[..., Held]
) -> None:
    """The model answers all 12 samples in one call; a call that lacks samples is filled up from the first on."""
    pair = held("x=float32[batch,4]")
    pair.recorded(doubled)
    copy = Signature((parse_input(f"x=float32[{batch},4]"),), pair.signature.outputs)
    facts = pair.copied(doubled, jobs.validate, signature=copy)
    whole = facts["rows"][0]
    assert (whole["verdict"], whole["samples"], whole["batch"]) == ("pass", 12, calls[0])
    assert [len(feeds["x"]) for feeds in pair.copy.fed[: len(calls)]] == calls
    assert {row["verdict"] for row in facts["rows"]} == {"pass"}
    samples = read_dataset(pair.folder / "test.npz").inputs["x"]
    eleventh = samples[10]
    wrong = pair.copied(lambda feeds: doubled(feeds) + (feeds["x"] == eleventh), jobs.validate, signature=copy)
    assert (wrong["rows"][0]["verdict"], wrong["reason"].partition(":")[0]) == ("fail", f"at batch {calls[0]}")
    assert wrong["evidence"]["worst_samples"][0]["sample"] == 10


@pytest.mark.parametrize("chunk", [5, 256])
def test_calls_of_the_copy_are_gathered_from_any_calls_of_the_model(chunk: int, held: Callable[..., Held]) -> None:
    pair = held("x=float32[batch,4]")
    pair.recorded(doubled, chunk=chunk)
    copy = Signature((parse_input("x=float32[batch=1..4,4]"),), pair.signature.outputs)
    facts = pair.copied(doubled, jobs.validate, signature=copy)
    assert {(row["batch"], row["verdict"]) for row in facts["rows"]} == {(4, "pass"), (1, "pass"), (2, "pass")}
    assert [len(feeds["x"]) for feeds in pair.copy.fed[:3]] == [4, 4, 4]


def test_a_copy_of_a_fixed_batch_says_which_batches_it_was_not_asked(held: Callable[..., Held]) -> None:
    pair = held("x=float32[batch,4]")
    pair.recorded(doubled)
    copy = Signature((parse_input("x=float32[8,4]"),), pair.signature.outputs)
    facts = pair.copied(doubled, jobs.validate, signature=copy)
    (axis,) = facts["evidence"]["exercised"][0]["axes"]
    assert (axis["sizes"], axis["not_asked"]) == ([8], [[1, 7], [9, None]])
    assert pair.copied(doubled, signature=copy)["status"] == "wrong", "a route's result has lost the axis"


def test_samples_that_fill_the_last_call_up_count_once(held: Callable[..., Held]) -> None:
    """The four that come again are right, and all others wrong."""
    pair = held("x=float32[batch,4]")
    inputs = read_dataset(pair.folder / "test.npz").inputs
    right = inputs["x"].argmax(1)
    labels = np.where(np.arange(12) < 4, right, (right + 1) % 4)
    write_dataset(pair.folder / "test.npz", Dataset(inputs, labels))
    pair.recorded(doubled)
    copy = Signature((parse_input("x=float32[8,4]"),), pair.signature.outputs)
    metric = MetricChoice(name="accuracy", output="y").to_json()
    facts = pair.copied(doubled, jobs.validate, signature=copy, metric=metric)
    assert facts["rows"][0]["metric"]["reference"] == pytest.approx(4 / 12)
    assert [row["elements"] for row in facts["evidence"]["errors"]] == [12 * 4]


def test_answers_without_a_row_for_each_sample_are_not_split_for_a_copy(held: Callable[..., Held]) -> None:
    pair = held("x=float32[batch,4]")
    pair.recorded(lambda feeds: feeds["x"].T)
    copy = Signature((parse_input("x=float32[batch=1..5,4]"),), pair.signature.outputs)
    with pytest.raises(BadRequest, match=r"calls of 1\.\.5 samples, and the model's answers to 12 have no row"):
        pair.copied(lambda feeds: feeds["x"].T, jobs.validate, signature=copy)


def test_sizes_are_asked_at_batches_that_the_copy_takes(held: Callable[..., Held]) -> None:
    pair = held(SEQUENCE)
    pair.recorded(mean)
    copy = Signature((parse_input("x=float32[batch=1..4,tokens,4]"),), pair.signature.outputs)
    facts = pair.copied(mean, signature=copy)
    assert (facts["status"], facts["sizes"]) == ("verified", {"tokens": [5, 65, 128, 257, 1025, 1, 426, 425]})
