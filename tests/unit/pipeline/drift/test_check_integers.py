"""Integers that random samples do not hold: how far a model is asked, and what a copy that is wrong there is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from transload.models.artifact import write_artifact
from transload.models.dataset import Dataset, write_dataset
from transload.models.errors import SessionLost
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.probes.feeds import sample_specs
from transload.models.probes.integer_range import MOST_TRIES
from transload.models.probes.random_inputs import sample_tensors
from transload.models.probes.stress_values import IntegerRange
from transload.models.signature import Array, Signature, parse_input
from transload.pipeline.drift import jobs, reference
from transload.pipeline.drift.recorded_answers import read_record

Feeds = Mapping[str, Array]
Model = Callable[[Feeds], Array]
TABLE = np.random.default_rng(5).normal(size=(10, 3)).astype(np.float32)


class FakeSession:
    """A model that is a function of its feeds."""

    device = "cpu"

    def __init__(self, signature: Signature, model: Model) -> None:
        self.signature, self.model = signature, model
        self.fed: list[Feeds] = []

    def run(self, feeds: Feeds) -> Mapping[str, Array]:
        self.fed.append(feeds)
        return {"y": self.model(feeds)}

    def close(self) -> None:
        pass


class Pair:
    """A model, and a copy of it that is held against the model's answers."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, *inputs: str) -> None:
        specs = tuple(map(parse_input, inputs))
        self.signature = Signature(specs, (parse_input("y=float32[any]"),))
        self.folder, self.patch = folder, patch
        (folder / "model.onnx").touch()
        samples = sample_tensors(sample_specs(specs), {"batch": 12, "*samples": 12}, seed=4)
        write_dataset(folder / "test.npz", Dataset(samples))

    def verdict(
        self, model: Model, copy: Model, precision: str = "fp32", tries: int | None = MOST_TRIES
    ) -> Mapping[str, Any]:
        self.model, self.copy = FakeSession(self.signature, model), FakeSession(self.signature, copy)
        self.patch.setattr(reference, "open_for", lambda *_: self.model)
        self.patch.setattr(jobs, "open_for", lambda *_: self.copy)
        inputs = {"model": self.folder, "artifact": self.folder, "data": self.folder, "reference": self.folder}
        reference.answer(
            Job(inputs, self.folder, {"runtime": "torch", **({"tries": tries} if tries is not None else {})})
        )
        write_artifact(self.folder, Target(Format.ONNX), self.signature)
        return jobs.verify(Job(inputs, self.folder, {"runtime": "onnxruntime", "precision": precision}))


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pair]:
    return lambda *inputs: Pair(tmp_path, monkeypatch, *inputs)


def to_zero(x: Array) -> Array:
    """x // 3 as C has it."""
    return np.asarray(np.sign(x) * (np.abs(x) // 3))


def looked_up(ids: Array) -> Array:
    """An embedding in PyTorch: no index is negative."""
    if ids.min() < 0 or ids.max() >= len(TABLE):
        raise SessionLost("index out of range in self", fix="")
    return TABLE[ids].mean(1)


def test_a_copy_that_rounds_negative_integers_to_zero_passed_and_is_told_with_them(pair: Callable[..., Pair]) -> None:
    one = pair("x=int64[batch,4]")
    passed = one.verdict(lambda feeds: feeds["x"] // 3, lambda feeds: to_zero(feeds["x"]), tries=None)
    assert (passed["status"], passed["reason"]) == ("verified", "agrees to the last bit at batches 1, 2, 5, 65")
    found = one.verdict(lambda feeds: feeds["x"] // 3, lambda feeds: to_zero(feeds["x"]))
    assert found["status"] == "wrong"
    assert found["reason"] == (
        "with x within ±7: 18 of 40 integers differ; wrong where x is -1, -2, -4, -5 and others; "
        "where such integers never come, give samples of yours: --data FILE.npz"
    )


def test_a_copy_that_is_wrong_for_some_integers_of_the_samples_is_told_which(pair: Callable[..., Pair]) -> None:
    def last(feeds: Feeds) -> Array:
        return TABLE[feeds["places"] - 1]

    def never_empty(feeds: Feeds) -> Array:
        return np.asarray(last(feeds) * (feeds["places"] > 0)[:, np.newaxis])

    found = pair("places=int64[batch]", "x=float32[batch,3]").verdict(last, never_empty, tries=0)
    assert found["reason"].endswith(
        "; wrong where places is 0; where such integers never come, give samples of yours: --data FILE.npz"
    )

    def otherwise(feeds: Feeds) -> Array:
        return np.where(feeds["x"][:, :1] > 0, -last(feeds), last(feeds))

    found = pair("places=int64[batch]", "x=float32[batch,3]").verdict(last, otherwise, tries=0)
    assert found["status"] == "wrong"
    assert found["reason"].endswith("dB, below 60 dB")  # right samples hold the same


def test_the_smallest_integers_are_seen_in_so_many_samples_as_hold_enough_of_them(pair: Callable[..., Pair]) -> None:
    for shape, samples in (("batch,4", 10), ("batch,100", 5)):
        one = pair(f"ids=int64[{shape}]")
        one.verdict(lambda feeds: feeds["ids"] * 2, lambda feeds: feeds["ids"] * 2)
        assert sum(len(feeds["ids"]) for feeds in one.copy.fed if abs(feeds["ids"]).max() == 7) == samples


WRONG: list[tuple[str, Model, Model, str]] = [
    ("x=int64[batch]", lambda feeds: feeds["x"] * 99, lambda feeds: (feeds["x"] * 99).astype(np.int32).astype(np.int64),
     "with x within ±2^26: "),
    ("x=int32[batch,3]", lambda feeds: TABLE[feeds["x"] % 10].sum(1), lambda feeds: TABLE[abs(feeds["x"]) % 10].sum(1),
     "with x within ±7: output y agrees to "),
    ("x=uint16[batch,3]", lambda feeds: TABLE[feeds["x"] % 10], lambda feeds: TABLE[np.uint8(feeds["x"] & 255) % 10],
     "with x up to 1023: output y agrees to "),
    ("x=int64[3]", lambda feeds: np.cumsum(feeds["x"]), lambda feeds: np.cumsum(abs(feeds["x"])),
     "with x within ±7: "),
]  # fmt: skip


@pytest.mark.parametrize(("takes", "model", "copy", "words"), WRONG)
def test_what_only_other_integers_show_is_wrong(
    takes: str, model: Model, copy: Model, words: str, pair: Callable[..., Pair]
) -> None:
    found = pair(takes).verdict(model, copy)
    assert found["status"] == "wrong"
    assert found["reason"].startswith(words)
    assert "; wrong where x is " in found["reason"]


def test_what_differs_beyond_32_bits_alone_is_told_with_a_copy_that_counts(pair: Callable[..., Pair]) -> None:
    one = pair("x=int64[batch]")
    # Of 53 bits this one is right again: what it is right within ends where it first differs.
    narrow = lambda x: (x.astype(np.int32) % 97).astype(np.int64)  # noqa: E731
    found = one.verdict(
        lambda feeds: feeds["x"] % 97,
        lambda feeds: feeds["x"] % 97 if abs(feeds["x"]).max() > 2**52 else narrow(feeds["x"]),
    )
    assert found["status"] == "verified"
    assert found["reason"] == (
        "agrees to the last bit at batches 1, 2, 5, 65, with x within ±2^31; with x within ±2^36: 4 of 5 integers "
        "differ; wrong where x is -36287035806"
    )


def root(x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.sqrt(x.astype(np.float64))


REACHES: list[tuple[str, Model, str]] = [
    ("ids=int64[batch,4]", lambda feeds: looked_up(feeds["ids"]), "ids up to 9"),
    ("ids=int64[batch,4]", lambda feeds: TABLE[feeds["ids"] % 10], "ids within ±2^62"),
    ("steps=int64[batch]", lambda feeds: np.outer(feeds["steps"], np.arange(abs(feeds["steps"]).max() + 1)),
     "steps within ±31"),
    ("x=int64[batch]", lambda feeds: root(feeds["x"]), "x up to 2^62"),
    ("t=int64[batch]", lambda feeds: np.sin(feeds["t"].astype(np.float32)), "t within ±1048575"),
]  # fmt: skip


@pytest.mark.parametrize(("takes", "model", "words"), REACHES)
def test_a_right_copy_says_with_which_integers_it_was_seen(
    takes: str, model: Model, words: str, pair: Callable[..., Pair]
) -> None:
    found = pair(takes).verdict(model, model)
    assert found["status"] == "verified"
    assert found["reason"] == f"agrees to the last bit at batches 1, 2, 5, 65, with {words}"


def test_between_the_smallest_integers_and_the_largest_no_others_are_asked_where_they_can_show_nothing_more(
    pair: Callable[..., Pair],
) -> None:
    rows = np.random.default_rng(6).normal(size=(3000, 3))

    def found(ids: Array) -> Array:
        if ids.min() < 0 or ids.max() >= len(rows):
            raise SessionLost("index out of range in self", fix="")
        return np.asarray(rows[ids])

    def largest_asked(one: Pair) -> list[int]:
        return sorted({int(feeds["ids"].max()) for feeds in one.copy.fed})

    one = pair("ids=int64[batch,40]")
    right = one.verdict(lambda feeds: found(feeds["ids"]), lambda feeds: found(feeds["ids"]))
    assert right["reason"].endswith(", with ids up to 2999")
    assert largest_asked(one) == [3, 7, 2999]

    late = one.verdict(lambda feeds: found(feeds["ids"]), lambda feeds: found(np.minimum(feeds["ids"], 1000)))
    assert late["reason"].startswith("with ids up to 1023: ")  # the smallest of those that show it
    assert largest_asked(one) == [3, 7, 63, 1023, 2999]

    few = pair("ids=int64[batch,2]")
    few.verdict(lambda feeds: found(feeds["ids"]), lambda feeds: found(feeds["ids"]))
    assert {7, 63, 1023, 2999} <= set(largest_asked(few))

    grown = pair("ids=int64[batch,40]")  # a copy that is wrong for 60 is right to 60 dB beside 2047
    grown.verdict(
        lambda feeds: found(feeds["ids"]) * feeds["ids"][..., None],
        lambda feeds: found(feeds["ids"]) * feeds["ids"][..., None],
    )
    assert largest_asked(grown) == [3, 7, 63, 1023, 2999]


def test_each_input_goes_as_far_as_the_model_takes_it(pair: Callable[..., Pair]) -> None:
    one = pair("user=int64[batch]", "item=int64[batch]", "age=int32[batch]", "mask=int64[batch]", "kind=int8[batch]")
    wide = np.random.default_rng(6).normal(size=(3000, 3)).astype(np.float32)

    def model(feeds: Feeds) -> Array:
        known = looked_up(feeds["user"][:, np.newaxis]) + feeds["age"][:, np.newaxis] % 7
        return np.asarray(known + wide[feeds["item"]] * (feeds["item"] >= 0)[:, np.newaxis])

    def strict(feeds: Feeds) -> Array:
        if feeds["item"].min() < 0 or feeds["item"].max() >= 3000:
            raise SessionLost("index out of range in self", fix="")
        return model(feeds)

    found = one.verdict(strict, strict)
    assert found["reason"].endswith(", with user up to 9 and item up to 2999 and age within ±2^31")
    assert read_record(one.folder).reach == {
        "user": IntegerRange(0, 4, most=9),
        "item": IntegerRange(0, 12, most=2999),
        "age": IntegerRange(31, 31),
    }
    assert {name for feeds in one.copy.fed for name in ("mask", "kind") if abs(feeds[name]).max() > 3} <= {"kind"}


def test_what_is_made_floats_of_stops_beside_what_is_not(pair: Callable[..., Pair]) -> None:
    def model(feeds: Feeds) -> Array:
        return np.sin(feeds["t"].astype(np.float32)) + feeds["x"] % 97

    found = pair("t=int64[batch]", "x=int64[batch]").verdict(model, model)
    assert found["reason"].endswith(", with t within ±1048575 and x within ±2^62")


def test_a_model_that_takes_no_other_integers_says_so(pair: Callable[..., Pair]) -> None:
    def model(feeds: Feeds) -> Array:
        return TABLE[:4][feeds["ids"]] if feeds["ids"].min() >= 0 else TABLE[:0][feeds["ids"]]

    def asked(feeds: Feeds) -> Array:
        try:
            return model(feeds)
        except IndexError as error:
            raise SessionLost(str(error), fix="") from error

    assert pair("ids=int64[batch,4]").verdict(asked, asked)["reason"].endswith("2, 5, 65, with ids up to 3 alone")


def test_a_reduced_precision_is_asked_with_the_samples_alone(pair: Callable[..., Pair]) -> None:
    found = pair("x=int64[batch,4]").verdict(
        lambda feeds: feeds["x"] * 0.3, lambda feeds: abs(feeds["x"]) * 0.3, "int8"
    )
    assert (found["status"], found["reason"].rpartition(", ")[2]) == ("verified", "with x up to 3 alone")


def test_what_rounding_does_to_large_integers_is_no_fault(pair: Callable[..., Pair]) -> None:
    step = np.float32(0.7)
    found = pair("t=int64[batch]").verdict(
        lambda feeds: np.sin(feeds["t"].astype(np.float32) * step),
        lambda feeds: np.sin(feeds["t"].astype(np.float32) * np.nextafter(step, np.float32(1))),
    )
    assert found["status"] == "verified"


def test_where_nothing_could_be_tried_the_copy_says_what_the_samples_hold(pair: Callable[..., Pair]) -> None:
    found = pair("x=int64[batch,4]").verdict(lambda feeds: feeds["x"], lambda feeds: feeds["x"], tries=0)
    assert found["reason"] == "agrees to the last bit at batches 1, 2, 5, 65, with x up to 3 alone"


def test_a_copy_that_compares_integers_as_floats_is_caught(pair: Callable[..., Pair]) -> None:
    """Two of random ones never lie so close that float32 does not tell them apart."""

    def less(feeds: Feeds, dtype: str) -> Array:
        return np.asarray(feeds["a"].astype(dtype) < feeds["b"].astype(dtype), np.float32)

    one = pair("a=int32[batch,3]", "b=int32[batch,3]")
    found = one.verdict(lambda feeds: less(feeds, "int64"), lambda feeds: less(feeds, "float32"))
    assert (found["status"], found["reason"].partition(":")[0]) == ("wrong", "with a, b within ±2^26")


def onnx_file(folder: Path, nodes: list[onnx.NodeProto]) -> Path:
    """x // 3 over int64, by other operators, as an artifact."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", 4]) for name in "xy")
    three = helper.make_tensor("three", TensorProto.INT64, [], [3])
    model = helper.make_model(
        helper.make_graph(nodes, "floor", [x], [y], [three]), opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    folder.mkdir()
    onnx.save(model, folder / "model.onnx")
    signature = Signature((parse_input("x=int64[batch,4]"),), (parse_input("y=int64[batch,4]"),))
    write_artifact(folder, Target(Format.ONNX), signature)
    return folder


def test_an_onnx_file_that_rounds_to_zero_is_caught_by_onnx_runtime_itself(tmp_path: Path) -> None:
    node = helper.make_node
    right = [node("Mod", ["x", "three"], ["m"]), node("Sub", ["x", "m"], ["d"]), node("Div", ["d", "three"], ["y"])]
    model, copy = (
        onnx_file(tmp_path / "model", right),
        onnx_file(tmp_path / "copy", [node("Div", ["x", "three"], ["y"])]),
    )
    write_dataset(tmp_path / "test.npz", Dataset({"x": np.random.default_rng(1).integers(0, 4, (12, 4))}))
    inputs = {"model": model, "data": tmp_path, "reference": tmp_path}
    verdicts = []
    for options in ({}, {"tries": MOST_TRIES}):
        reference.answer(Job(inputs, tmp_path, {"runtime": "onnxruntime", **options}))
        verdicts.append(jobs.verify(Job({**inputs, "artifact": copy}, tmp_path, {})))
    assert [found["status"] for found in verdicts] == ["verified", "wrong"]
    assert "wrong where x is -1, -2, -4" in verdicts[1]["reason"]


def test_a_copy_that_is_wrong_for_one_row_of_a_table_is_wrong(pair: Callable[..., Pair]) -> None:
    """A table of 100 rows was asked up to 63."""
    rows = np.random.default_rng(6).normal(size=(100, 3))

    def found(ids: Array, table: Array) -> Array:
        if ids.min() < 0 or ids.max() >= len(rows):
            raise SessionLost("index out of range in self", fix="")
        return np.asarray(table[ids])

    table_pair = pair("ids=int64[batch,12]")
    for at in (40, 77, 99):
        wrong = rows.copy()
        wrong[at] *= -1

        def copy(feeds: Feeds, table: Array = wrong) -> Array:
            return found(feeds["ids"], table)

        told = table_pair.verdict(lambda feeds: found(feeds["ids"], rows), copy)
        assert told["status"] == "wrong", at
        assert told["reason"].startswith("with ids up to ")
