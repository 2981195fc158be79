"""Chains of moves drawn at random: transposes, reshapes, axes of size 1 that come and go, with convolutions, pools and
sums between them. Both dialects are held against the specification's reference, of sizes distinct, equal and 1.

Only such chains bring together what no test of one operator does: a rule of ours, and one of TensorFlow's optimisers.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from transload.converters.onnx_to_tf.kernels.dialects import TENSORFLOW, TFLITE
from transload.converters.onnx_to_tf.lower_model import lower

CHAINS = 24  # in one model: TFLite's converter takes its time for each model, not for each chain
FEEDS = 3


@dataclass(frozen=True)
class Axis:
    """How long it is for each of the feeds, and whether the model declares that: then it is equally long for all."""

    sizes: tuple[int, ...]
    fixed: bool

    def __mul__(self, other):
        return Axis(tuple(a * b for a, b in zip(self.sizes, other.sizes, strict=True)), self.fixed and other.fixed)


def fixed(size):
    return Axis((size,) * FEEDS, fixed=True)


ONE = fixed(1)


@dataclass
class Chain:
    """What was made so far: the last value's name and axes."""

    rng: np.random.Generator
    name: str
    axes: list[Axis]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    def chance(self, share):
        return self.rng.random() < share

    def fresh(self):
        return f"{self.name.split('_')[0]}_{len(self.nodes)}"

    def constant(self, array):
        name = f"{self.name.split('_')[0]}_c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def node(self, op_type, inputs, **attributes):
        made = self.fresh()
        self.nodes.append(helper.make_node(op_type, inputs, [made], **attributes))
        return made

    def then(self, op_type, *more, axes=None, **attributes):
        """The next operator; the axes are those of before where nothing else is said."""
        self.name = self.node(op_type, [self.name, *more], **attributes)
        self.axes = list(self.axes if axes is None else axes)

    def weight(self, *shape):
        return self.constant(self.rng.standard_normal(shape).astype(np.float32))


def transpose(chain):
    order = [int(each) for each in chain.rng.permutation(len(chain.axes))]
    if len(order) < 2:
        return
    if chain.chance(0.5):  # the batch stays in front, as in most models
        order = [0, *(each for each in order if each)]
    chain.then("Transpose", perm=order, axes=[chain.axes[at] for at in order])


def reshape(chain):
    """Neighbours joined, an axis split in two, axes of size 1 taken out and put in."""
    groups = [[at] for at, axis in enumerate(chain.axes) if axis != ONE]
    if len(groups) > 1 and chain.chance(0.5):
        at = int(chain.rng.integers(len(groups) - 1))
        groups[at : at + 2] = [groups[at] + groups[at + 1]]
    made = [(math.prod((chain.axes[at] for at in group), start=ONE), group) for group in groups]
    if chain.chance(0.4):
        even = next((at for at, (axis, _) in enumerate(made) if axis.fixed and axis.sizes[0] % 2 == 0), None)
        if even is not None:
            made[even : even + 1] = [(fixed(2), []), (fixed(made[even][0].sizes[0] // 2), [])]
    while len(made) < 5 and chain.chance(0.4):
        made.insert(int(chain.rng.integers(len(made) + 1)), (ONE, []))
    chain.then("Reshape", target(chain, made), axes=[axis for axis, _ in made])


def target(chain, made):
    """The wanted shape: a constant, with -1 for an axis that is not fixed, or computed where there are more of them."""
    free = [at for at, (axis, _) in enumerate(made) if not axis.fixed]
    if len(free) <= 1 and chain.chance(0.8):
        return chain.constant(np.array([-1 if at in free else axis.sizes[0] for at, (axis, _) in enumerate(made)]))
    shape = chain.node("Shape", [chain.name])
    parts = [chain.constant(np.array([1]))]
    for axis, group in made:
        if axis.fixed:
            parts.append(chain.constant(np.array([axis.sizes[0]])))
            continue
        sizes = [chain.node("Gather", [shape, chain.constant(np.array([at]))]) for at in group]
        parts.append(sizes[0] if len(sizes) == 1 else chain.node("Mul", sizes))
    whole = chain.node("Concat", parts, axis=0)
    return chain.node("Slice", [whole, chain.constant(np.array([1])), chain.constant(np.array([9]))])


def squeeze(chain):
    ones = [at for at, axis in enumerate(chain.axes) if axis == ONE]
    if ones:
        at = int(chain.rng.choice(ones))
        chain.then("Squeeze", chain.constant(np.array([at])), axes=chain.axes[:at] + chain.axes[at + 1 :])


def unsqueeze(chain):
    if len(chain.axes) < 5:
        at = int(chain.rng.integers(len(chain.axes) + 1))
        chain.then("Unsqueeze", chain.constant(np.array([at])), axes=[*chain.axes[:at], ONE, *chain.axes[at:]])


def flatten(chain):
    at = int(chain.rng.integers(len(chain.axes) + 1))
    parts = chain.axes[:at], chain.axes[at:]
    chain.then("Flatten", axis=at, axes=[math.prod(part, start=ONE) for part in parts])


def add(chain):
    shape = [axis.sizes[0] if axis.fixed and chain.chance(0.4) else 1 for axis in chain.axes]
    chain.then("Add", chain.weight(*shape))


def expand(chain):
    """To three along an axis of size 1."""
    ones = [at for at, axis in enumerate(chain.axes) if axis == ONE]
    if ones:
        at = int(chain.rng.choice(ones))
        shape = np.array([3 if each == at else 1 for each in range(len(chain.axes))])
        chain.then("Expand", chain.constant(shape), axes=[*chain.axes[:at], fixed(3), *chain.axes[at + 1 :]])


def concat(chain):
    """Beside another one of its own: itself, or what its own transpose takes back."""
    other = chain.name
    if len(chain.axes) > 1 and chain.chance(0.5):
        order = [int(each) for each in chain.rng.permutation(len(chain.axes))]
        turned = chain.node("Relu", [chain.node("Transpose", [other], perm=order)])
        other = chain.node("Transpose", [turned], perm=[order.index(at) for at in range(len(order))])
    at = int(chain.rng.integers(len(chain.axes)))
    chain.then("Concat", other, axis=at, axes=[*chain.axes[:at], chain.axes[at] * fixed(2), *chain.axes[at + 1 :]])


def reduce_mean(chain):
    at = int(chain.rng.integers(len(chain.axes)))
    chain.then("ReduceMean", chain.constant(np.array([at])), axes=[*chain.axes[:at], ONE, *chain.axes[at + 1 :]])


def softmax(chain):
    chain.then("Softmax", axis=int(chain.rng.integers(len(chain.axes))))


def convolution(chain):
    if len(chain.axes) not in (3, 4) or not chain.axes[1].fixed:
        return
    spatial, channels = len(chain.axes) - 2, chain.axes[1].sizes[0]
    filters, size = int(chain.rng.choice([channels, 3])), int(chain.rng.choice([1, 3]))
    given = [chain.weight(filters, channels, *[size] * spatial), chain.weight(filters)]
    chain.then("Conv", *given, pads=[size // 2] * 2 * spatial, axes=[chain.axes[0], fixed(filters), *chain.axes[2:]])


def pool(chain):
    if len(chain.axes) == 4:
        kind = str(chain.rng.choice(["MaxPool", "AveragePool"]))
        chain.then(kind, kernel_shape=[2, 2], pads=[0, 1, 1, 0])


MOVES = (transpose, transpose, transpose, reshape, reshape, squeeze, unsqueeze, flatten, expand, concat)
FUNCTIONS = (add, reduce_mean, softmax, convolution, convolution, pool)


def drawn(rng, name):
    """A chain over an input that is given as its first value."""
    rank = int(rng.integers(2, 5))
    base, declared = int(rng.choice([2, 4])), rng.random()
    sizes = [base] * rank if rng.random() < 0.5 else [int(each) for each in rng.permutation([2, 3, 4, 5])[:rank]]
    if rng.random() < 0.6:
        sizes.insert(0 if rng.random() < 0.6 else int(rng.integers(rank)), 1)
    axes = [fixed(size) for size in sizes[:4]]
    for at in range(len(axes)):
        if declared < 0.5 and rng.random() < (0.7 if at == 0 else 0.25):
            axes[at] = Axis((axes[at].sizes[0], 1, int(rng.integers(2, 6))), fixed=False)
    chain = Chain(rng, name, axes)
    for _ in range(int(rng.integers(3, 8))):
        table = MOVES if rng.random() < 0.7 else FUNCTIONS
        move = table[int(rng.integers(len(table)))]
        if math.prod(max(axis.sizes) for axis in chain.axes) < 4000 or move not in (expand, concat):
            move(chain)
    chain.then("Identity")
    return axes, chain


def drawn_model(seed, path):
    """The feeds of a model of many chains, and what the reference makes of them."""
    rng = np.random.default_rng(seed)
    chains = {f"x{at}": drawn(rng, f"x{at}") for at in range(CHAINS)}
    inputs = [
        helper.make_tensor_value_info(
            name, TensorProto.FLOAT, [axis.sizes[0] if axis.fixed else f"{name}_{at}" for at, axis in enumerate(axes)]
        )
        for name, (axes, _) in chains.items()
    ]
    made = [chain for _, chain in chains.values()]
    graph = helper.make_graph(
        [node for chain in made for node in chain.nodes], "chains", inputs,
        [helper.make_tensor_value_info(chain.name, TensorProto.FLOAT, None) for chain in made],
        [numpy_helper.from_array(each, name) for chain in made for name, each in chain.constants.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    judge = ReferenceEvaluator(str(path))
    for which in range(FEEDS):
        feeds = {
            name: rng.standard_normal([axis.sizes[which] for axis in axes]).astype(np.float32)
            for name, (axes, _) in chains.items()
        }
        yield feeds, dict(zip(judge.output_names, judge.run(None, feeds), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_chains_of_moves_agree_with_the_reference(bench, tmp_path, seed):
    cases = list(drawn_model(seed, tmp_path / "model.onnx"))
    for answer in (
        bench.in_tensorflow(lower(tmp_path / "model.onnx", TENSORFLOW)),
        bench.in_tflite(lower(tmp_path / "model.onnx", TFLITE)),
    ):
        for feeds, expected in cases:
            got = answer(feeds)
            for name, each in expected.items():
                assert got[name].shape == each.shape, name
                np.testing.assert_allclose(got[name], each, 1e-4, 1e-4, err_msg=name)
