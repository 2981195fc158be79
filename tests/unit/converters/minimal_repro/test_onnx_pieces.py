"""Pieces of a model compute what they compute in the whole; a search finds the shortest that fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from transload.converters.minimal_repro.onnx_pieces import Cutter, described
from transload.models.errors import Refused
from transload.pipeline.minimal_repro.trial import (
    OUT_OF_TIME,
    WRONG,
    OutOfTime,
    Trial,
    Trouble,
    differs,
    facts_of,
    first_failing,
    found_or_refused,
    suspects,
)


@pytest.fixture
def cutter(tmp_path: Path) -> Cutter:
    """x -> Relu a -> Shape s -> Reshape(a, s) b -> Transpose c -> MatMul(c, w) y."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "relu"),
        helper.make_node("Shape", ["a"], ["s"], "shape"),
        helper.make_node("Reshape", ["a", "s"], ["b"], "reshape"),
        helper.make_node("Transpose", ["b"], ["c"], "turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["c", "w"], ["y"], "head"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5, 4])],
        [numpy_helper.from_array(np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32), "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "model.onnx"
    )
    found = Cutter(tmp_path / "model.onnx")
    found.record({"x": np.random.default_rng(0).standard_normal((2, 3, 5)).astype(np.float32)})
    return found


def answers(piece) -> dict[str, np.ndarray]:  # type: ignore[no-untyped-def,type-arg]
    import onnxruntime

    session = onnxruntime.InferenceSession(piece.model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(piece.expected, session.run(list(piece.expected), dict(piece.feeds)), strict=True))


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("chosen", [[0], [2], [3], [4], [0, 1, 2], [2, 3, 4], [0, 1, 2, 3, 4]])
def test_a_piece_computes_what_it_computes_in_the_whole(chosen: list[int], flat: bool, cutter: Cutter) -> None:
    piece = cutter.piece(chosen, flat=flat)
    assert piece is not None
    assert piece.operators == len(chosen)
    for name, got in answers(piece).items():
        np.testing.assert_array_equal(got, piece.expected[name])
        assert got.ndim <= (2 if flat else 3)


def test_axes_stay_dynamic_and_sizes_that_are_computed_become_constants(cutter: Cutter) -> None:
    piece = cutter.piece([2])
    assert piece is not None
    assert [(spec.name, spec.shape) for spec in piece.signature.inputs] == [("a", ("batch", 3, 5))]
    assert [each.name for each in piece.model.graph.initializer] == ["s"]


def test_what_is_behind_a_node_comes_nearest_first(cutter: Cutter) -> None:
    assert cutter.behind(4, 1) == [4]
    assert cutter.behind(4, 3) == [4, 3, 2]
    assert cutter.behind(2, 9) == [2, 1, 0]


def test_a_node_is_named_with_its_operator(cutter: Cutter) -> None:
    assert described(cutter.nodes[3]) == "the operator Transpose (turn)"


@pytest.mark.parametrize("culprit", [1, 2, 7, 8, 13])
def test_the_shortest_beginning_that_fails_is_found_in_few_trials(culprit: int) -> None:
    asked: list[int] = []

    def fails(count: int) -> bool:
        asked.append(count)
        return count >= culprit

    assert first_failing(13, fails) == culprit
    assert len(asked) <= 4


def test_only_the_same_kind_of_failure_counts() -> None:
    no_kernel = Trouble("Refused", "the operator Det (node_7) is not carried")
    assert no_kernel.like(Trouble("Refused", "the operator Det (node_12) is not carried"))
    assert not no_kernel.like(Trouble("Refused", "its shape is computed by the model"))
    assert not no_kernel.like(Trouble("ValueError", no_kernel.what))
    moved = Trouble(WRONG, "agrees to 3 dB; equals the reference after (0, 2, 1): the layout was lost")
    assert not moved.like(Trouble(WRONG, "agrees to 12 dB"))
    assert Trouble(WRONG, "agrees to 3 dB").like(Trouble(WRONG, "agrees to 12 dB"))
    several = Trouble("Refused", "TFLite has no kernel for Erfinv (erfinv_1), Digamma (digamma)")
    assert Trouble("Refused", "TFLite has no kernel for Digamma (digamma)").like(several)
    assert not Trouble("Refused", "TFLite has no kernel for Betainc (betainc)").like(several)


def test_an_operator_that_the_failure_names_is_tried_first() -> None:
    operators = [("Conv", "first"), ("Det", "one"), ("Det", "two"), ("Relu", "three")]
    assert suspects("the operator Det (two) is not carried", operators) == [2, 1]
    assert suspects("agrees to 3 dB", operators) == []


def test_answers_are_held_to_shape_and_numbers() -> None:
    want = {"y": np.arange(24, dtype=np.float32).reshape(2, 3, 4)}
    assert differs(want, want, 60) is None
    off = differs({"y": want["y"] * 1.1}, want, 60)
    assert off is not None
    assert off.what.startswith("agrees to 20 dB")
    turned = differs({"y": want["y"].transpose(0, 2, 1)}, want, 60)
    assert turned is not None
    assert turned.moved


def test_a_search_whose_time_is_over_says_so_and_tries_the_whole_all_the_same(tmp_path: Path) -> None:
    trial = Trial([], 60.0, tmp_path, 0.0)
    seen = trial(lambda folder: None, {}, {})
    assert seen is not None
    assert not trial.out_of_time
    with pytest.raises(OutOfTime):
        trial(lambda folder: None, {}, {})
    assert not facts_of(seen, 3, "Add", "the operator Add", None, trial)["whole"]
    with pytest.raises(Refused, match=OUT_OF_TIME):
        found_or_refused(None, seen, trial)
