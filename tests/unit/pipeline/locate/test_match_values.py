"""Broken copies of a small net: the operator, the module, the line and the class of the error are found."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

from transload.models.loading.build import construct
from transload.models.signature import Signature, TensorSpec
from transload.models.sources import CodeRef
from transload.pipeline.locate.locate_records import (
    CandidateGraph,
    Capture,
    FollowFacts,
    FollowOptions,
)
from transload.pipeline.locate.match_values import Follower
from transload.serving.tracing.traced_model import TracedModel

from .followed_copies import follow_copy, write_net

NET = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.border = nn.ZeroPad2d((1, 2, 0, 1))
            self.conv = nn.Conv2d(3, 6, 3, bias=False)
            self.norm = nn.BatchNorm2d(6)
            self.norm.running_var.uniform_(0.02, 0.5)
            self.act = nn.GELU()
            self.layer = nn.LayerNorm(6)
            self.mix = nn.Linear(6, 6)
            self.memory = nn.LSTM(6, 5, batch_first=True)
            self.head = nn.Linear(5, 4)

        def forward(self, image):
            x = self.act(self.norm(self.conv(self.border(image))))
            rows = x.mean(2).transpose(1, 2)
            rows = self.layer(rows)
            rows = torch.tanh(rows) - self.mix(rows)
            rows = self.memory(rows)[0]
            return (9 * self.head(rows[:, -1])).softmax(-1)
"""
SIGNATURE = Signature(
    (TensorSpec("image", "float32", ("batch", 3, 7, 9)),), (TensorSpec("output", "float32", ("batch", 4)),)
)
FEEDS = {"image": np.random.default_rng(1).normal(size=(2, 3, 7, 9)).astype(np.float32)}
Break = Callable[[onnx.ModelProto], None]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("net")
    return write_net(root, NET, SIGNATURE)


@pytest.fixture(scope="module")
def exported(source: Path) -> onnx.ModelProto:
    """A copy without a name or a line that a bare file would lack."""
    root = source.parent
    module = construct(CodeRef("net.py:Net", str(root)))
    path = root / "net.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter keeps an LSTM in one piece, and warns of its age
        torch.onnx.export(
            module, (torch.from_numpy(FEEDS["image"]),), str(path), dynamo=False, opset_version=20,
            input_names=["image"], output_names=["output"],
        )  # fmt: skip
    model = onnx.load(path)
    for node in model.graph.node:
        node.name = ""
    return model


def located(source: Path, model: onnx.ModelProto, tmp_path: Path, **options: Any) -> FollowFacts:
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return follow_copy(source, path, FEEDS, **options)


def node(model: onnx.ModelProto, kind: str, at: int = 0) -> onnx.NodeProto:
    return [node for node in model.graph.node if node.op_type == kind][at]


def set_attribute(target: onnx.NodeProto, name: str, value: Any) -> None:
    kept = [attribute for attribute in target.attribute if attribute.name != name]
    del target.attribute[:]
    target.attribute.extend([*kept, helper.make_attribute(name, value)])


def change_weight(model: onnx.ModelProto, name: str, change: Callable[[Any], Any]) -> None:
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(change(numpy_helper.to_array(tensor))), name))


def exchange_gates(model: onnx.ModelProto) -> None:
    lstm = node(model, "LSTM")
    for at in (1, 2):
        change_weight(model, lstm.input[at], lambda w: np.concatenate([np.split(w, 4, 1)[g] for g in (0, 2, 3, 1)], 1))
    order = (0, 2, 3, 1, 4, 6, 7, 5)
    change_weight(model, lstm.input[3], lambda bias: np.concatenate([np.split(bias, 8, 1)[gate] for gate in order], 1))


def fold_with(eps: float, source: Path) -> Break:
    def fold(model: onnx.ModelProto) -> None:
        module: Any = construct(CodeRef("net.py:Net", str(source.parent)))
        wrong, right = ((module.norm.running_var + value).sqrt() for value in (eps, module.norm.eps))
        conv = node(model, "Conv")
        change_weight(model, conv.input[1], lambda w: w * (right / wrong).numpy()[:, None, None, None])
        beta, mean, gamma = module.norm.bias, module.norm.running_mean, module.norm.weight
        bias = (beta - mean * gamma / wrong).detach().numpy()
        model.graph.initializer.append(numpy_helper.from_array(bias, "folded"))
        conv.input[2] = "folded"

    return fold


CASES: dict[str, tuple[Break, str, str, str, str]] = {
    "gelu": (
        lambda m: set_attribute(node(m, "Gelu"), "approximate", "tanh"),
        "gelu", "act", "net.py:19", "approximate function",
    ),
    "eps": (
        lambda m: set_attribute(node(m, "LayerNormalization"), "epsilon", 1e-3),
        "layer_norm", "layer", "net.py:21", "eps",
    ),
    "operands": (lambda m: node(m, "Sub").input.reverse(), "sub", "", "net.py:22", "swapped operands"),
    "axis": (lambda m: set_attribute(node(m, "Softmax"), "axis", 0), "softmax", "", "net.py:24", "wrong axis"),
    "gates": (exchange_gates, "lstm", "memory", "net.py:23", "gate order"),
    "transposed": (
        lambda m: change_weight(m, node(m, "MatMul").input[1], lambda w: w.T),
        "linear", "mix", "net.py:22", "layout",
    ),
    "half": (
        lambda m: change_weight(m, node(m, "MatMul").input[1], lambda w: w.astype(np.float16).astype(np.float32)),
        "linear", "mix", "net.py:22", "dtype narrowed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_wrong_operator_is_named_with_its_line_and_the_class_of_its_error(
    name: str, source: Path, exported: onnx.ModelProto, tmp_path: Path
) -> None:
    broken = onnx.ModelProto()
    broken.CopyFrom(exported)
    change, operator, module, line, error_class = CASES[name]
    change(broken)
    facts = located(source, broken, tmp_path)
    (place,) = facts.places
    assert (place.operator, place.module, place.error_class) == (operator, module, error_class)
    assert place.line.startswith(f"{line} (`")
    assert place.explained_db is not None
    assert place.explained_db > 100
    assert facts.rest_follows


def test_an_epsilon_that_was_folded_into_a_convolution_is_named(
    source: Path, exported: onnx.ModelProto, tmp_path: Path
) -> None:
    broken = onnx.ModelProto()
    broken.CopyFrom(exported)
    fold_with(1e-3, source)(broken)
    (place,) = located(source, broken, tmp_path).places
    assert (place.operator, place.module, place.error_class) == ("batch_norm", "norm", "eps")
    assert place.explanation == "eps is 0.001 where the model has 1e-05"
    assert [text.split()[0] for text in place.nodes] == ["Conv"]
    assert place.own_db is not None
    assert 20 < place.own_db < 90


def test_an_error_smaller_than_the_usual_least_is_named_where_the_model_has_less_noise(
    source: Path, exported: onnx.ModelProto, tmp_path: Path
) -> None:
    broken = onnx.ModelProto()
    broken.CopyFrom(exported)
    set_attribute(node(broken, "LayerNormalization"), "epsilon", 1.3e-5)
    assert located(source, broken, tmp_path).places == ()
    (place,) = located(source, broken, tmp_path, limits_db={"output": 118.0}).places
    assert (place.operator, place.module) == ("layer_norm", "layer")
    assert located(source, exported, tmp_path, limits_db={"output": 118.0}).places == ()


def insert_before(model: onnx.ModelProto, reader: str, kind: str, *more: str, **attributes: Any) -> None:
    """Send what an operator reads first through an operator of the copy's own."""
    target = node(model, reader)
    own = helper.make_node(kind, [target.input[0], *more], ["own"], "own", **attributes)
    target.input[0] = "own"
    model.graph.node.insert(next(at for at, other in enumerate(model.graph.node) if other == target), own)


def test_a_result_that_the_copy_changes_afterwards_is_the_place(
    source: Path, exported: onnx.ModelProto, tmp_path: Path
) -> None:
    broken = onnx.ModelProto()
    broken.CopyFrom(exported)
    broken.graph.initializer.append(numpy_helper.from_array(np.array(0.99, np.float32), "little"))
    insert_before(broken, "LSTM", "Mul", "little")
    (place,) = located(source, broken, tmp_path).places
    assert place.line.startswith("net.py:22 ")  # the LSTM that reads it is on the next line
    assert place.nodes == ("Mul (own)",)


def test_an_operator_that_only_moves_values_is_named_where_the_order_is_wrong(
    source: Path, exported: onnx.ModelProto, tmp_path: Path
) -> None:
    broken = onnx.ModelProto()
    broken.CopyFrom(exported)
    broken.graph.initializer.append(numpy_helper.from_array(np.array([8, 7, 6, 5, 4, 3, 2, 1, 0]), "turned"))
    insert_before(broken, "LSTM", "Gather", "turned", axis=0)
    (place,) = located(source, broken, tmp_path).places
    assert "Gather (own)" in place.nodes


def test_a_right_copy_has_no_place(source: Path, exported: onnx.ModelProto, tmp_path: Path) -> None:
    facts = located(source, exported, tmp_path)
    assert facts.places == ()
    assert facts.rest_follows
    assert facts.matched > 8


def test_a_copy_of_which_no_value_can_be_matched_has_no_place(source: Path) -> None:
    capture = Capture(CandidateGraph((), {}), {}, FEEDS, {"output": np.zeros((2, 4), np.float32)})
    facts = Follower(TracedModel(source, 1), capture, FollowOptions()).places()
    assert facts.places == ()
    assert facts.note == "no value inside the copy is equal to one of the model's, so none can be followed"


def test_two_errors_are_two_places_and_what_is_inherited_is_none(
    source: Path, exported: onnx.ModelProto, tmp_path: Path
) -> None:
    broken = onnx.ModelProto()
    broken.CopyFrom(exported)
    CASES["gelu"][0](broken)
    CASES["operands"][0](broken)
    facts = located(source, broken, tmp_path)
    assert [place.operator for place in facts.places] == ["gelu", "sub"]
    assert facts.rest_follows
    first = located(source, broken, tmp_path, most=1)
    assert len(first.places) == 1
    assert not first.rest_follows
    assert first.note == "more places were not looked for"
