"""Each operator by itself: our lowering against ONNX Runtime, at several batches, once with all sizes distinct and once
with all sizes equal. A layout that is guessed from sizes is right in one of the two only."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

Array = np.ndarray[Any, np.dtype[Any]]
DISTINCT = {"C": 4, "D": 3, "H": 7, "W": 6, "K": 9, "M": 8}
EQUAL = dict.fromkeys(DISTINCT, 4)
BATCHES = (1, 2, 4, 5)  # 4 is the size of all other axes of the twins
LARGE = {  # every spatial axis has a dynamic size of its own
    "NCH": ("N", 4, "h"),
    "NCHW": ("N", 4, "h", "w"),
    "NCDHW": ("N", 4, "d", "h", "w"),
}


def roomy(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw numbers whose spatial axes are a few elements longer than the batch, each of another size."""
    sizes = [shape[0] + 2 + at for at in range(2, len(shape))]
    return rng.standard_normal((*shape[:2], *sizes)).astype(np.float32)


@dataclass(frozen=True)
class Sizes:
    """Shapes by letters: `sizes("NCHW")`; N is the dynamic batch."""

    by_letter: Mapping[str, int]

    def __call__(self, letters: str) -> tuple[int | str, ...]:
        return tuple("N" if letter == "N" else self.by_letter[letter] for letter in letters)

    def __getattr__(self, letter: str) -> int:
        return self.by_letter[letter]


@dataclass(frozen=True)
class Case:
    """One node. `inputs` by name: a shape (random float32, N dynamic) or a pair of shape and maker of values.
    `constants` become initializers. The node's inputs are named in `order`; "" leaves one out."""

    op_type: str
    inputs: Mapping[str, Any]
    constants: Mapping[str, Array] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    order: Sequence[str] | None = None
    outputs: int | Sequence[str] = 1
    opset: int = 20


def shape_and_maker(given: Any) -> tuple[tuple[int | str, ...], Callable[..., Array]]:
    if len(given) == 2 and callable(given[1]):
        return given
    return given, lambda rng, shape: rng.standard_normal(shape).astype(np.float32)


def model_of(case: Case, path: Path) -> tuple[list[str], list[str]]:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    order = list(case.order if case.order is not None else [*case.inputs, *case.constants])
    names = [f"y{at}" for at in range(case.outputs)] if isinstance(case.outputs, int) else list(case.outputs)
    node = helper.make_node(case.op_type, order, names, name=f"the {case.op_type}", **case.attributes)
    kept = [name for name in names if name]
    inputs = []
    for name, given in case.inputs.items():
        shape, maker = shape_and_maker(given)
        sample = maker(np.random.default_rng(0), tuple(1 if isinstance(axis, str) else axis for axis in shape))
        inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(sample.dtype), shape))
    outputs = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in kept]
    graph = helper.make_graph(
        [node],
        "case",
        inputs,
        outputs,
        [numpy_helper.from_array(array, name) for name, array in case.constants.items()],
    )
    imports = [helper.make_opsetid("", case.opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model)
    del model.graph.output[:]
    model.graph.output.extend(inferred.graph.output)
    for output in model.graph.output:  # shape inference knows neither functions nor operators of others
        if "domain" in case.attributes:
            output.ClearField("type")
        else:
            output.type.tensor_type.elem_type = output.type.tensor_type.elem_type or TensorProto.FLOAT
    onnx.save(model, path)
    return [each.name for each in inputs], kept


def feeds_of(case: Case, batch: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed + batch)
    made = {}
    for name, given in case.inputs.items():
        shape, maker = shape_and_maker(given)
        made[name] = maker(rng, tuple(batch if isinstance(axis, str) else axis for axis in shape))
    return made


def flat_of(folder: Path) -> bytes:
    """A SavedModel as TFLite of builtin kernels."""
    from transload.converters.to_tflite.tflite_from_onnx import converter_of

    return bytes(converter_of(folder).convert())


Answer = Callable[[Mapping[str, Array]], Mapping[str, Array]]


@dataclass
class Bench:
    """Where models of one test are written."""

    folder: Path

    def lowered(self, case: Case, kernels: Any = None) -> Any:
        from transload.converters.onnx_to_tf.kernels.dialects import TENSORFLOW
        from transload.converters.onnx_to_tf.lower_model import lower

        path = self.folder / "model.onnx"
        model_of(case, path)
        return lower(path, kernels or TENSORFLOW)

    def in_tensorflow(self, lowered: Any) -> Answer:
        """A lowered model as a function of its feeds."""
        import tensorflow as tf

        def answer(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
            got = lowered.module.serve(*[tf.constant(feeds[spec.name]) for spec in lowered.inputs])
            return {name: tensor.numpy() for name, tensor in got.items()}

        return answer

    def in_tflite(self, lowered: Any) -> Answer:
        """A model that was lowered for TFLite, as the file that it becomes: builtin kernels, one file for all feeds."""
        from ai_edge_litert.interpreter import Interpreter

        from transload.converters.to_saved_model.saved_model_from_onnx import save

        save(lowered, self.folder / "for_tflite")
        runner = Interpreter(model_content=flat_of(self.folder / "for_tflite")).get_signature_runner("serving_default")
        return lambda feeds: runner(**feeds)

    def agrees(self, case: Case, rtol: float = 1e-5, atol: float = 1e-5) -> Any:
        """Hold our answers against ONNX Runtime's at every batch; shapes, dtypes and what is not finite included."""
        lowered = self.lowered(case)
        feeds = [feeds_of(case, batch) for batch in BATCHES]
        self._holds(lowered.outputs, feeds, self.in_tensorflow(lowered), rtol, atol)
        return lowered

    def agrees_in_tflite(self, case: Case, rtol: float = 1e-5, atol: float = 1e-5) -> None:
        """As `agrees`, for the TFLite file that the same model becomes."""
        from transload.converters.onnx_to_tf.kernels.dialects import TFLITE

        lowered = self.lowered(case, TFLITE)
        feeds = [feeds_of(case, batch) for batch in BATCHES]
        self._holds(lowered.outputs, feeds, self.in_tflite(lowered), rtol, atol)

    def agrees_with_reference(
        self, case: Case, rtol: float = 1e-5, atol: float = 1e-5, *, in_tflite: bool = False
    ) -> None:
        """As `agrees`, against the specification's reference: of wordings that ONNX Runtime does not know."""
        from onnx.reference import ReferenceEvaluator

        from transload.converters.onnx_to_tf.kernels.dialects import TENSORFLOW, TFLITE

        lowered = self.lowered(case, TFLITE if in_tflite else TENSORFLOW)
        answer = self.in_tflite(lowered) if in_tflite else self.in_tensorflow(lowered)
        feeds = [feeds_of(case, batch) for batch in BATCHES]
        judge = ReferenceEvaluator(str(self.folder / "model.onnx"))
        self._holds(lowered.outputs, feeds, answer, rtol, atol, judge)

    def model_agrees(self, text: str, *feeds: Mapping[str, Array], tflite: bool = True, **tolerances: float) -> None:
        """Hold both dialects of a whole model, in onnx's text form, against ONNX Runtime for each of the feeds."""
        import onnx.parser

        from transload.converters.onnx_to_tf.kernels.dialects import TENSORFLOW, TFLITE
        from transload.converters.onnx_to_tf.lower_model import lower

        path = self.folder / "model.onnx"
        onnx.save(onnx.parser.parse_model(text), path)
        made = lower(path, TENSORFLOW)
        self._holds(made.outputs, feeds, self.in_tensorflow(made), **tolerances)
        if tflite:
            made = lower(path, TFLITE)
            self._holds(made.outputs, feeds, self.in_tflite(made), **tolerances)

    def _holds(  # noqa: PLR0917
        self,
        outputs: Sequence[str],
        many_feeds: Sequence[Mapping[str, Array]],
        answer: Answer,
        rtol: float = 1e-5,
        atol: float = 1e-5,
        judge: Any = None,
    ) -> None:
        import onnxruntime

        session = judge or onnxruntime.InferenceSession(self.folder / "model.onnx", providers=["CPUExecutionProvider"])
        for feeds in many_feeds:
            got = answer(feeds)
            shapes = {name: array.shape for name, array in feeds.items()}
            for name, expected in zip(outputs, session.run(None, dict(feeds)), strict=True):
                assert got[name].dtype == expected.dtype, (name, shapes)
                assert got[name].shape == expected.shape, (name, shapes)
                np.testing.assert_allclose(got[name], expected, rtol, atol, err_msg=f"{name} of {shapes}")

    def agrees_both_ways(self, case: Callable[[Sizes], Case], **tolerances: float) -> None:
        for sizes in (DISTINCT, EQUAL):
            self.agrees(case(Sizes(sizes)), **tolerances)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def case() -> type[Case]:
    return Case


@pytest.fixture
def sizes() -> Sizes:
    return Sizes(DISTINCT)


@pytest.fixture
def same_sizes() -> Sizes:
    return Sizes(EQUAL)
