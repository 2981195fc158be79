"""Copies with one changed weight: its name, its channel and its module are found, also where operators are fused."""

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

from .followed_copies import follow_copy, write_net

NET = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(5)
            self.conv = nn.Conv2d(3, 8, 3, bias=False)
            self.norm = nn.BatchNorm2d(8)
            self.deep = nn.Conv2d(8, 8, 3, groups=8)
            self.point = nn.Conv2d(8, 12, 1)
            self.norm2 = nn.BatchNorm2d(12)
            self.layer = nn.LayerNorm(12)
            self.up = nn.Linear(12, 20)
            self.down = nn.Linear(20, 6)
            self.up1d = nn.BatchNorm1d(6)
            for norm in (self.norm, self.norm2, self.up1d):
                nn.init.uniform_(norm.running_mean, -0.5, 0.5)
                nn.init.uniform_(norm.running_var, 0.3, 2.0)
                nn.init.uniform_(norm.weight, 0.5, 1.5)
                nn.init.uniform_(norm.bias, -0.5, 0.5)
            nn.init.uniform_(self.layer.weight, 0.5, 1.5)

        def forward(self, image):
            x = torch.relu(self.norm(self.conv(image)))
            x = torch.relu(self.norm2(self.point(self.deep(x))))
            rows = self.layer(x.mean(2).transpose(1, 2))
            rows = self.down(nn.functional.gelu(self.up(rows)))
            return self.up1d(rows.mean(1))
"""
SIGNATURE = Signature(
    (TensorSpec("image", "float32", ("batch", 3, 9, 11)),), (TensorSpec("output", "float32", ("batch", 6)),)
)
FEEDS = {"image": np.random.default_rng(1).normal(size=(2, 3, 9, 11)).astype(np.float32)}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("net")
    return write_net(root, NET, SIGNATURE)


def exported(source: Path, path: Path, change: Callable[[Any], None]) -> None:
    """Export the net with changed weights, as a file with no name that the model has."""
    module: Any = construct(CodeRef("net.py:Net", str(source.parent)))
    with torch.no_grad():
        change(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter folds batch norms itself, and warns of its age
        torch.onnx.export(
            module, (torch.from_numpy(FEEDS["image"]),), str(path), dynamo=False, opset_version=20,
            input_names=["image"], output_names=["output"],
        )  # fmt: skip
    model = onnx.load(path)
    names = {tensor.name: f"c{at}" for at, tensor in enumerate(model.graph.initializer)}
    for tensor in model.graph.initializer:
        tensor.name = names[tensor.name]
    for node in model.graph.node:
        node.name = ""
        for at, name in enumerate(node.input):
            node.input[at] = names.get(name, name)
    onnx.save(model, path)


def change_of(name: str, at: tuple[int, ...], factor: float, shift: float = 0.0) -> Callable[[Any], None]:
    def change(module: Any) -> None:
        tensor = module.state_dict()[name]
        tensor[at] = tensor[at] * factor + shift

    return change


# The weight, the elements, the factor, what is added, the channel of the result.
CASES: list[tuple[str, tuple[int, ...], float, float, str]] = [
    ("conv.weight", (3,), 1.5, 0.0, "channel 3 of 8"),
    ("conv.weight", (2, 1, 0, 2), 1.0, 0.4, "channel 2 of 8"),
    ("conv.weight", (7, 0), -1.0, 0.0, "channel 7 of 8"),
    ("norm.weight", (4,), 1.3, 0.0, "channel 4 of 8"),
    ("norm.bias", (1,), 1.0, 0.5, "channel 1 of 8"),
    ("norm.running_mean", (6,), 1.0, 0.7, "channel 6 of 8"),
    ("norm.running_var", (3,), 4.0, 0.0, "channel 3 of 8"),
    ("norm.running_var", (0,), 0.5, 0.0, "channel 0 of 8"),
    ("deep.weight", (5,), 2.0, 0.0, "channel 5 of 8"),
    ("deep.weight", (2, 0, 1, 1), 1.0, 1.0, "channel 2 of 8"),
    ("deep.bias", (4,), 1.0, -0.3, "channel 4 of 8"),
    ("point.weight", (9,), 0.5, 0.0, "channel 9 of 12"),
    ("point.weight", (1, 6, 0, 0), 1.0, 0.5, "channel 1 of 12"),
    ("point.bias", (11,), 1.0, 0.2, "channel 11 of 12"),
    ("norm2.running_var", (4,), 3.0, 0.0, "channel 4 of 12"),
    ("norm2.weight", (2,), -1.0, 0.0, "channel 2 of 12"),
    ("layer.weight", (5,), 1.2, 0.0, "channel 5 of 12"),
    ("layer.bias", (0,), 1.0, 0.1, "channel 0 of 12"),
    ("up.weight", (13,), 1.4, 0.0, "channel 13 of 20"),
    ("up.weight", (4, 7), 1.0, 0.3, "channel 4 of 20"),
    ("up.bias", (19,), 1.0, 0.2, "channel 19 of 20"),
    ("down.weight", (2,), 0.9, 0.0, "channel 2 of 6"),
    ("down.bias", (5,), 1.0, 0.2, "channel 5 of 6"),
    ("up1d.running_var", (3,), 2.0, 0.0, "channel 3 of 6"),
    ("up1d.bias", (1,), 1.0, 0.5, "channel 1 of 6"),
    ("up1d.running_mean", (2,), 1.0, 0.5, "channel 2 of 6"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_the_weight_the_channel_and_the_module_are_named(
    case: tuple[str, tuple[int, ...], float, float, str], source: Path, tmp_path: Path
) -> None:
    name, at, factor, shift, channels = case
    exported(source, tmp_path / "copy.onnx", change_of(name, at, factor, shift))
    facts = follow_copy(source, tmp_path / "copy.onnx", FEEDS)
    (place,) = facts.places
    assert place.channels == channels
    assert place.error_class == "weight"
    assert f"{name}[{', '.join(map(str, at))}" in place.explanation
    assert place.module in {words.split("[")[0].rpartition(".")[0] for words in place.explanation.split(", or ")}
    assert facts.rest_follows


def test_a_right_copy_has_no_place(source: Path, tmp_path: Path) -> None:
    exported(source, tmp_path / "copy.onnx", lambda _module: None)
    facts = follow_copy(source, tmp_path / "copy.onnx", FEEDS)
    assert (facts.places, facts.rest_follows) == ((), True)


def quantise_weight(path: Path, kind: str, at: int, axis: int, change: Callable[[Any], None]) -> None:
    """Put int8 with a scale per channel in the place of the weight of an operator, with changed scales."""
    model = onnx.load(path)
    target = [node for node in model.graph.node if node.op_type == kind][at]
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == target.input[1])
    weight = numpy_helper.to_array(tensor)
    others = tuple(other for other in range(weight.ndim) if other != axis)
    scales = np.abs(weight).max(others) / 127
    whole = np.round(weight / np.expand_dims(scales, others)).astype(np.int8)
    change(scales)
    for name, array in (("whole", whole), ("scales", scales)):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    model.graph.node.insert(0, helper.make_node("DequantizeLinear", ["whole", "scales"], ["own"], axis=axis))
    target.input[1] = "own"
    onnx.save(model, path)


@pytest.mark.parametrize(
    ("where", "weight", "channels"),
    [(("Conv", 2, 0), "point.weight[3]", "channel 3 of 12"), (("MatMul", 1, 1), "down.weight[3]", "channel 3 of 6")],
)
def test_a_wrong_scale_of_a_quantised_weight_is_named(
    where: tuple[str, int, int], weight: str, channels: str, source: Path, tmp_path: Path
) -> None:
    def change(scales: Any) -> None:
        scales[3] *= 20

    exported(source, tmp_path / "copy.onnx", lambda _module: None)
    quantise_weight(tmp_path / "copy.onnx", *where, lambda _scales: None)
    assert follow_copy(source, tmp_path / "copy.onnx", FEEDS, least_db=20.0).places == ()
    exported(source, tmp_path / "copy.onnx", lambda _module: None)
    quantise_weight(tmp_path / "copy.onnx", *where, change)
    (place,) = follow_copy(source, tmp_path / "copy.onnx", FEEDS, least_db=20.0).places
    assert place.module == weight.rpartition(".")[0]
    assert place.channels == channels
    assert place.explanation.startswith(f"{weight} is ")
    assert float(place.explanation.split()[2]) == pytest.approx(20, rel=0.01)


def test_a_weight_of_all_channels_is_named_by_its_factor(source: Path, tmp_path: Path) -> None:
    exported(source, tmp_path / "copy.onnx", change_of("up.weight", (), 1.25))
    (place,) = follow_copy(source, tmp_path / "copy.onnx", FEEDS).places
    assert (place.module, place.channels, place.explanation) == ("up", "", "up.weight is 1.25 x the model's")
