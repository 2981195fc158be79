"""Pieces of an ONNX model compute what they compute in the full model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from transload.converters.minimal_repro.onnx_pieces import OnnxCutter


@pytest.fixture
def cutter(tmp_path: Path) -> OnnxCutter:
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
    found = OnnxCutter(tmp_path / "model.onnx")
    found.record({"x": np.random.default_rng(0).standard_normal((2, 3, 5)).astype(np.float32)})
    return found


def answers(piece) -> dict[str, np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(piece.model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(piece.expected, session.run(list(piece.expected), dict(piece.feeds)), strict=True))


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("chosen", [[0], [2], [3], [4], [0, 1, 2], [2, 3, 4], [0, 1, 2, 3, 4]])
def test_a_piece_computes_what_it_computes_in_the_whole(
    chosen: list[int], flat: bool, cutter: OnnxCutter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutter, "flat", flat)
    piece = cutter.piece(chosen)
    assert piece is not None
    assert piece.operators == len(chosen)
    for name, got in answers(piece).items():
        np.testing.assert_array_equal(got, piece.expected[name])
        assert got.ndim <= (2 if flat else 3)


def test_axes_stay_dynamic_and_sizes_that_are_computed_become_constants(cutter: OnnxCutter) -> None:
    piece = cutter.piece([2])
    assert piece is not None
    assert [(spec.name, spec.shape) for spec in piece.signature.inputs] == [("a", ("batch", 3, 5))]
    assert [each.name for each in piece.model.graph.initializer] == ["s"]


def test_what_is_behind_a_node_comes_nearest_first(cutter: OnnxCutter) -> None:
    assert cutter.with_predecessors(4, 1) == [4]
    assert cutter.with_predecessors(4, 3) == [4, 3, 2]
    assert cutter.with_predecessors(2, 9) == [2, 1, 0]


def test_a_node_is_named_with_its_operator(cutter: OnnxCutter) -> None:
    assert cutter.describe(3) == ("Transpose", "the operator Transpose (turn)", None)


def test_a_file_whose_casts_stand_last_runs_in_float16(tmp_path: Path) -> None:
    """ONNX Runtime's converter to float16 writes the casts of the inputs behind all other nodes."""
    import onnx
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Mul", ["half", "half"], ["square"], "square"),
        helper.make_node("Cast", ["x"], ["half"], "narrow", to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["square"], ["y"], "widen", to=TensorProto.FLOAT),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch"]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "model.onnx"
    )
    cutter = OnnxCutter(tmp_path / "model.onnx")
    assert cutter.record_in_half({"x": np.asarray([2.0, 300.0], np.float32)})
    assert cutter.values["y"].tolist() == [4.0, np.inf]
