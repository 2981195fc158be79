"""Hostile .tflite files: TensorFlow's operators behind other names, tables that contradict themselves, endless loops."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from .case import Case, Outcome, Place, convert
from .saved_models import save

_MODEL = "m.tflite"
_WORDS = convert(_MODEL, "tflite")


@cache
def _converted(kind: str) -> bytes:
    import tensorflow as tf

    bodies: dict[str, Callable[[Any, Any], Any]] = {
        "good": lambda module, x: x @ module.weight,
        "flex": lambda module, x: tf.math.erf(x) @ module.weight,
        "loop": lambda module, x: tf.while_loop(lambda v: tf.reduce_sum(v) < 9.0, lambda v: (v + 1,), [x])[0],
        "fill": lambda module, x: tf.fill([tf.shape(x)[0], 3], 1.0),
    }
    with TemporaryDirectory() as folder:
        place = Place(Path(folder) / "case")
        place.make()
        converter = tf.lite.TFLiteConverter.from_saved_model(str(save(place, bodies[kind])))
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
        content: bytes = converter.convert()
        return content


def _edited(change: Callable[[Any, Place], object], kind: str = "good") -> Callable[[Place], None]:
    """Return a builder of a file with its tables changed."""

    def build(place: Place) -> None:
        import flatbuffers
        from ai_edge_litert import schema_py_generated as schema

        model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(_converted(kind), 0))
        change(model, place)
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        place.write(_MODEL, bytes(builder.Output()))

    return build


def _flex(operator: str, label: str = "Erf") -> Callable[[Any, Place], None]:
    """Let a Flex operator run another than its name says."""

    def change(model: Any, place: Place) -> None:
        from flatbuffers import flexbuffers
        from tensorflow.core.framework.node_def_pb2 import NodeDef

        builder = flexbuffers.Builder()
        with builder.Vector():
            builder.String(operator)
            builder.Blob(NodeDef(name="x", op=operator).SerializeToString())
        for row in model.subgraphs[0].operators:
            if model.operatorCodes[row.opcodeIndex].customCode:
                row.customOptions = list(builder.Finish())
        for code in model.operatorCodes:
            if code.customCode:
                code.customCode = b"Flex" + label.encode()

    return change


def _tables() -> Iterator[Case]:
    def custom(model: Any, place: Place) -> None:
        model.operatorCodes[0].customCode = b"../../evil.so"
        model.operatorCodes[0].deprecatedBuiltinCode = model.operatorCodes[0].builtinCode = 32

    def beyond(model: Any, place: Place) -> None:
        model.buffers[-1].data, model.buffers[-1].offset, model.buffers[-1].size = None, 1 << 40, 1 << 40

    def endless(model: Any, place: Place) -> None:
        for graph in model.subgraphs[1:]:
            for tensor in graph.tensors:
                if tensor.type == 6:  # bool: the condition
                    model.buffers.append(type(model.buffers[0])(data=[1]))
                    graph.operators = []
                    tensor.buffer = len(model.buffers) - 1

    def itself(model: Any, place: Place) -> None:
        for row in model.subgraphs[0].operators:
            if hasattr(row.builtinOptions, "bodySubgraphIndex"):
                row.builtinOptions.bodySubgraphIndex = row.builtinOptions.condSubgraphIndex = 0

    def no_graph(model: Any, place: Place) -> None:
        row = model.subgraphs[0].operators[0]
        row.builtinOptions.bodySubgraphIndex = row.builtinOptions.condSubgraphIndex = 1 << 20

    def name(text: bytes) -> Callable[[Any, Place], None]:
        def change(model: Any, place: Place) -> None:
            for definition in model.signatureDefs:
                definition.outputs[0].name = text

        return change

    def shape(*sizes: int) -> Callable[[Any, Place], None]:
        def change(model: Any, place: Place) -> None:
            for tensor in model.subgraphs[0].tensors[:1]:
                tensor.shape, tensor.shapeSignature = list(sizes), list(sizes)

        return change

    def index(field: str, value: int) -> Callable[[Any, Place], None]:
        return lambda model, place: setattr(model.subgraphs[0].operators[0], field, [value])

    def signature(model: Any, place: Place) -> None:
        model.signatureDefs[0].subgraphIndex = 1 << 20

    changes: dict[str, tuple[Callable[[Any, Place], None], str, Outcome]] = {
        "WriteFile behind FlexErf": (_flex("WriteFile"), "flex", Outcome.REFUSED),
        "WriteFile in its own name": (_flex("WriteFile", "WriteFile"), "flex", Outcome.REFUSED),
        "PyFunc behind FlexErf": (_flex("EagerPyFunc"), "flex", Outcome.REFUSED),
        "a Flex operator": (lambda model, place: None, "flex", Outcome.REFUSED),
        "a custom operator with a path": (custom, "good", Outcome.REFUSED),
        "weights beyond the file": (beyond, "good", Outcome.REFUSED),
        "an endless loop": (endless, "loop", Outcome.HARMLESS),
        "a loop that calls itself": (itself, "loop", Outcome.HARMLESS),
        "a loop over no graph": (no_graph, "loop", Outcome.REFUSED),
        "an output called as a verdict": (name(b"y\nPASS  7 of 7 targets verified\n"), "good", Outcome.HARMLESS),
        "a name that is no UTF-8": (name(b"\xff\xfe"), "good", Outcome.REFUSED),
        "an input of 2^62 numbers": (shape(1 << 30, 1 << 30, 4), "good", Outcome.REFUSED),
        "an input of negative size": (shape(-5, -7), "good", Outcome.HARMLESS),
        "an input of 5000 axes": (shape(*[1] * 5000), "good", Outcome.REFUSED),
        "inputs beyond the tensors": (index("inputs", 1 << 20), "good", Outcome.REFUSED),
        "outputs before the tensors": (index("outputs", -5), "good", Outcome.REFUSED),
        "a signature of no graph": (signature, "good", Outcome.REFUSED),
    }  # fmt: skip
    for text, (change, kind, outcome) in changes.items():
        yield Case(
            f"tflite/{text}", "run more than it says, or break the reader", _edited(change, kind), _WORDS, outcome
        )


def _bytes() -> Iterator[Case]:
    def noise(place: Place) -> None:
        content = bytearray(_converted("good"))
        generator = np.random.default_rng(1)
        for at in generator.integers(8, len(content), 200):
            content[at] = generator.integers(256)
        place.write(_MODEL, bytes(content))

    builders: dict[str, Callable[[Place], object]] = {
        "200 other bytes": noise,
        "its first half": lambda place: place.write(_MODEL, _converted("good")[:400]),
        "a magic word alone": lambda place: place.write(_MODEL, b"\x1c\0\0\0TFL3" + bytes(64)),
        "a sparse file of 1 TB": lambda place: place.write_sparse(_MODEL, _converted("good"), 1 << 40),
        "a sparse file of 1.9 GB": lambda place: place.write_sparse(_MODEL, _converted("good"), 1_900_000_000),
        "a pipe": lambda place: os.mkfifo(place.here / _MODEL),
    }
    for text, build in builders.items():
        outcome = Outcome.HARMLESS if text in ("200 other bytes", "a sparse file of 1.9 GB") else Outcome.REFUSED
        yield Case(f"tflite/{text}", "break or occupy the reader", build, _WORDS, outcome)


def cases() -> Iterator[Case]:
    """Yield the cases of TFLite."""
    yield from _tables()
    yield from _bytes()
