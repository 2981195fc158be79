"""Wrong and right copies whose file is edited in its own format: float16, int8, and other functions of a SavedModel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import edits_files as files
from edits_files import FileEdit

ONNX, SAVED_MODEL, TFLITE = "onnx", "saved-model", "tflite"
HALF_ONNX, HALF_TFLITE, INT8_ONNX, INT8_TFLITE = "onnx:fp16", "tflite:fp16", "onnx:int8", "tflite:int8"
REDUCED = (HALF_ONNX, HALF_TFLITE, INT8_ONNX, INT8_TFLITE)


@dataclass(frozen=True)
class FileCopy:
    """A copy that is written from a right one in the format `base`; `kind` is empty for a right copy."""

    kind: str
    model: str
    form: str
    variant: str
    base: str
    edit: FileEdit

    @property
    def is_overflow_of_delegates(self) -> bool:
        """Whether it is wrong in float16 arithmetic alone, which no TFLite kernel of a processor computes."""
        return self.form == HALF_TFLITE and self.base == SAVED_MODEL and bool(self.kind)

    @property
    def name(self) -> str:
        """The name of the artifact."""
        return f"{self.kind or 'right'}/{self.model}/{self.form}/{self.variant.replace(' ', '-')}"


# Of each model the operator whose result float16 cannot hold, and which of several that is.
OVERFLOWS: Mapping[str, tuple[str, int]] = {
    "residual-stream": ("Add", 1), "unit-vectors": ("Mul", 1), "hand-variance": ("Mul", 1),
    "long-mean": ("ReduceSum", 0), "evidence": ("Exp", 0), "large-scores": ("MatMul", 0),
}  # fmt: skip
QUANTISED = ("residual-net", "mobile-net", "u-net", "classifier", "vae", "norm-net")
SERVED = ("classifier", "table-net", "vae", "gauges", "recommender", "calendar")


def _halves() -> list[FileCopy]:
    rows = []
    for model, (op_type, at) in OVERFLOWS.items():
        rows += [
            FileCopy("half-overflow", model, HALF_ONNX, "all in half", ONNX, files.all_in_half(op_type, at)),
            FileCopy("half-overflow", model, HALF_ONNX, "operator in half", ONNX,
                     files.operators_in_half(op_type, at=at)),
            FileCopy("half-overflow", model, HALF_ONNX, "its kind in half", ONNX,
                     files.operators_in_half(op_type, "Sqrt", "Sub", "Div")),
            FileCopy("", model, HALF_ONNX, "layers in half", ONNX, files.operators_in_half("Gemm")),
            FileCopy("", model, HALF_ONNX, "weights in half", ONNX, files.weights_in_half),
        ]  # fmt: skip
        if model != "evidence":  # TensorFlow's converter makes a SOFTMAX of it, which is right
            edit = files.tflite_in_half(op_type, at)
            rows.append(FileCopy("half-overflow", model, HALF_TFLITE, "all in half", SAVED_MODEL, edit))
    damaged = {"exponent off": lambda weights: weights * 2, "row lost": files.first_row_lost}
    for model in QUANTISED:
        edit = files.tflite_by_tensorflow(int8=False)
        rows.append(FileCopy("", model, HALF_TFLITE, "by TensorFlow", SAVED_MODEL, edit))
        for name, change in damaged.items():
            edit = files.tflite_layer(files.tflite_half_weights(change), 0)
            rows.append(FileCopy("half-overflow", model, HALF_TFLITE, name, HALF_TFLITE, edit))
    return rows


def _quantised() -> list[FileCopy]:
    onnx_edits = {
        "weight scale": files.weight_scale(2.0), "zero point": files.zero_point(48),
        "input scale": files.input_scale(0.4),
    }  # fmt: skip
    tflite_edits = {
        "weight scale": files.tflite_layer(files.tflite_weight_scale(2.0)),
        "zero point": files.tflite_layer(files.tflite_zero_point(120)),
        "output scale": files.tflite_layer(files.tflite_output_scale(0.25)),
    }
    right = {
        "per tensor": files.quantised_by_onnxruntime(per_channel=False),
        "per channel": files.quantised_by_onnxruntime(per_channel=True),
    }
    rows = []
    for model in QUANTISED:
        rows += [FileCopy("int8-scale", model, INT8_ONNX, name, INT8_ONNX, edit) for name, edit in onnx_edits.items()]
        rows += [FileCopy("int8-scale", model, INT8_TFLITE, name, INT8_TFLITE, edit)
                 for name, edit in tflite_edits.items()]  # fmt: skip
        rows += [FileCopy("", model, INT8_ONNX, name, ONNX, edit) for name, edit in right.items()]
        edit = files.tflite_by_tensorflow(int8=True)
        rows.append(FileCopy("", model, INT8_TFLITE, "by TensorFlow", SAVED_MODEL, edit))
    return rows


def _functions() -> list[FileCopy]:
    rows = []
    for model in SERVED:
        wrong = {
            "signature negated": files.functions(signature=files.negated),
            "signature scaled": files.functions(signature=files.scaled, restored=True),
            "call negated": files.functions(call=files.negated),
        }
        right = {
            "signature alike": files.functions(signature=files.unchanged),
            "signature again": files.functions(signature=files.unchanged, restored=True),
            "call alike": files.functions(call=files.unchanged),
        }
        for kind, edits in (("other-functions", wrong), ("", right)):
            rows += [FileCopy(kind, model, SAVED_MODEL, name, SAVED_MODEL, edit) for name, edit in edits.items()]
    return rows


FILE_COPIES = (*_halves(), *_quantised(), *_functions())
