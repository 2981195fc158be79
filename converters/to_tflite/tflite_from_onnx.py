"""ONNX to TFLite by our own lowering, and SavedModel to TFLite, in four precisions. TensorFlow's own converter writes
the file; nothing of it needs the Flex delegate, unless a step's option `flex` lets it use TensorFlow's operators too.

Where TFLite lacks a kernel, the lowering of an ONNX model emits an equivalent (onnx_to_tf/kernels/): so it is lowered
anew here, and not taken from the SavedModel that TensorFlow serves.
"""

from __future__ import annotations

import gc
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...models.artifact import Artifact, read_artifact, write_artifact
from ...models.dataset import Dataset, read_dataset
from ...models.errors import BadRequest, Refused
from ...models.formats import PAYLOAD, Format, Precision, Target
from ...models.job import Job
from ...models.probes.feeds import make_feeds
from ...models.probes.sizes import bounds_within
from ...models.signature import Array, Signature
from ..onnx_to_tf.kernels import TFLITE
from ..to_saved_model.saved_model_from_onnx import SIGNATURE, lowered_with_names, save
from .flatbuffer import (
    better_in_float,
    calibrated_tensors,
    float_operators,
    known_ranges,
    operators,
    put_in_order,
    repeated_bytes,
    with_ranges,
)
from .flex_operators import flex_names
from .in_place_results import without_shared_places
from .lost_copies import without_lost_copies
from .replacements import in_words

# By the converter's words: what kernels of TFLite lack where they take others.
_DTYPES = {"f64": "float64", "f16": "float16", "i1": "bool"} | {
    f"{kind}i{bits}": f"{kind}int{bits}"
    for kind, bits in (("", 8), ("u", 8), ("", 16), ("u", 16), ("u", 32), ("u", 64))
}
CALIBRATION = "calibration.npz"
_MOST_BYTES = (1 << 31) - (1 << 20)  # flatbuffers count in 32 bits, with a sign
_WORTH = 0.002  # of a file's bytes
_FARTHEST = 1e38  # a range that is infinite, or whose width is, ends the quantiser's process: the log of 0 is enough
_MEND = "serve this model as SavedModel or ONNX"
_FLEX = "or convert it with --flex (its runtime then needs TensorFlow's Flex delegate)"
MOST_SAMPLES = 128  # one by one: more of them change the ranges little and cost their time


def tflite_fp32(job: Job) -> Mapping[str, Any]:
    """Weights and arithmetic stay what they are."""
    return _converted(job, Precision.FP32, lambda _tf, _converter, _signature: None)


def tflite_fp16(job: Job) -> Mapping[str, Any]:
    """Weights as float16; a runtime computes in what suits it."""

    def set_up(tf: Any, converter: Any, _signature: Signature) -> None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]

    return _converted(job, Precision.FP16, set_up)


def tflite_int8_dynamic(job: Job) -> Mapping[str, Any]:
    """Weights as int8; activations are quantised while the model runs, by their own range."""

    def set_up(tf: Any, converter: Any, _signature: Signature) -> None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]

    return _converted(job, Precision.INT8_DYNAMIC, set_up)


def tflite_int8(job: Job) -> Mapping[str, Any]:
    """Weights and arithmetic in int8, by ranges seen on inputs["data"]/calibration.npz; inputs and outputs keep their
    dtypes. The facts name the operators that stay in float: TFLite has them in no other form, or 8 bits would ruin them
    (file.better_in_float)."""
    signature = read_artifact(job.inputs["source"]).signature
    data = read_dataset(job.inputs["data"] / CALIBRATION, signature.inputs)

    def set_up(tf: Any, converter: Any, _signature: Signature) -> None:
        _check_data(data, signature)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = lambda: samples(data, signature)
        converter.canonicalizing_inf_as_min_max_float = True  # a range that holds an infinity says nothing
        converter.target_spec.supported_ops = [
            tf.lite.OpsSet.TFLITE_BUILTINS_INT8,
            tf.lite.OpsSet.TFLITE_BUILTINS,
        ]
        converter._experimental_calibrate_only = True  # which operators stay float depends on the ranges

    facts = _converted(job, Precision.INT8, set_up, lambda flat: _quantised(flat, samples(data, signature)))
    count = min(len(data), MOST_SAMPLES)
    return {**facts, "calibrated_on": count, "float_operators": float_operators(job.out / PAYLOAD[Format.TFLITE])}


def _quantised(calibrated: bytes, feeds: Iterable[dict[str, Array]]) -> bytes:
    """A calibrated model in int8, but for what 8 bits would ruin."""
    from tensorflow.lite.python.convert import mlir_quantize

    measured = with_ranges(calibrated, known_ranges(calibrated, _ranges(calibrated, feeds)))
    return bytes(mlir_quantize(measured, denylisted_nodes=better_in_float(measured)))


def _ranges(calibrated: bytes, feeds: Iterable[dict[str, Array]]) -> dict[int, tuple[float, float]]:
    """The smallest and the largest number of each tensor of the main graph that was calibrated, by its number. An
    infinity counts as _FARTHEST.

    TensorFlow's calibrator looks at an operator's inputs after it ran: where the answer was written over an input, the
    input is given the answer's range, as scores are given that of the mask which is added to them.
    """
    import tensorflow as tf

    interpreter = tf.lite.Interpreter(
        model_content=calibrated,
        experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    runner = interpreter.get_signature_runner(SIGNATURE)
    found: dict[int, tuple[float, float]] = {}
    for feed in feeds:
        runner(**feed)
        for at in calibrated_tensors(calibrated):
            seen = np.clip(np.nan_to_num(interpreter.get_tensor(at)), -_FARTHEST, _FARTHEST)
            if seen.size:
                low, high = found.get(at, (float("inf"), float("-inf")))
                found[at] = min(low, float(seen.min())), max(high, float(seen.max()))
    return found


def samples(data: Dataset, signature: Signature) -> Iterator[dict[str, Array]]:
    """The first samples, each in a call of its own, or with those after it where the model takes no single one."""
    least = bounds_within(signature.inputs, signature.batch).filled.low
    for at in range(min(len(data), MOST_SAMPLES)):
        yield make_feeds(data, np.arange(at, at + least) % len(data), signature)


def _check_data(data: Dataset, signature: Signature) -> None:
    want = sorted(spec.name for spec in signature.inputs)
    if sorted(data.inputs) != want:
        raise BadRequest(
            f"the calibration data holds {', '.join(sorted(data.inputs))}, the model takes {', '.join(want)}",
            fix="give calibration data for each input, by its name",
        )


def _converted(
    job: Job,
    precision: Precision,
    set_up: Callable[[Any, Any, Signature], None],
    finish: Callable[[bytes], bytes] = bytes,
) -> Mapping[str, Any]:
    """Convert inputs["source"], with what a precision sets of the converter and does with the file."""
    import tensorflow as tf
    from tensorflow.lite.python.convert_phase import ConverterError

    source = read_artifact(job.inputs["source"])
    folder, origins = _lowered(source) if source.target.format is Format.ONNX else (in_words(source.path), {})
    converter = converter_of(folder)
    if job.options.get("flex"):
        _let_flex(converter)
    set_up(tf, converter, source.signature)
    try:
        with warnings.catch_warnings():  # it calibrates with its own interpreter, and warns of that
            warnings.filterwarnings("ignore", r"\s*Warning: tf.lite.Interpreter is deprecated", UserWarning)
            flat = without_lost_copies(finish(converter.convert()))
            flat = without_shared_places(flat, may_be_empty=_may_be_empty(source.signature))
    except ConverterError as error:
        mend = _MEND if precision is Precision.INT8 or job.options.get("flex") else f"{_MEND}, {_FLEX}"
        raise Refused(_reason(str(error), origins), fix=mend) from error
    path = job.out / PAYLOAD[Format.TFLITE]
    path.write_bytes(flat)
    del flat
    put_in_order(
        path, *([spec.name for spec in specs] for specs in (source.signature.inputs, source.signature.outputs))
    )
    flex = _flex_of(path)
    write_artifact(job.out, Target(Format.TFLITE, precision), source.signature, flex)
    return {"operators": sum(operators(path).values()), "flex": list(flex)}


def _may_be_empty(signature: Signature) -> bool:
    return any(not each.low for each in signature.bounds.values())


def converter_of(folder: Path) -> Any:
    """TensorFlow's converter for a SavedModel's `serving_default`: builtin kernels, and numbers as they are."""
    import tensorflow as tf
    from tensorflow.lite.python.lite import TFLiteSavedModelConverterV2

    # What TFLiteConverter.from_saved_model gives, which loads the model first, and keeps it through the conversion.
    converter = TFLiteSavedModelConverterV2(str(folder), {tf.saved_model.SERVING}, [SIGNATURE])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    # By default it makes the largest number of a constant infinity, without a word.
    converter.canonicalizing_inf_as_min_max_float = False
    _keep_small(converter)
    return converter


def _flex_of(path: Path) -> tuple[str, ...]:
    from tensorflow.lite.python.schema_py_generated import Model

    return flex_names(Model.GetRootAs(np.memmap(path, mode="r"), 0))


def _let_flex(converter: Any) -> None:
    """Where TFLite has no kernel, TensorFlow's operators; so lists of tensors of unknown length."""
    import tensorflow as tf

    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]


def _keep_small(converter: Any) -> None:
    """Keep what a conversion needs in memory near three times the model, instead of six."""
    converter.exclude_conversion_metadata = (
        True  # which is put in by unpacking the file as a whole and packing it again
    )
    finish = converter._optimize_tflite_model

    def finish_if_it_matters(flat: bytes, mode: Any, *rest: Any, **named: Any) -> Any:
        """In the precisions that are not int8 it looks for equal weights, and packs the file anew without them."""
        worth = mode.is_integer_quantization() or repeated_bytes(flat) > _WORTH * len(flat)
        return finish(flat, mode, *rest, **named) if worth else flat

    converter._optimize_tflite_model = finish_if_it_matters


def _lowered(source: Artifact) -> tuple[Path, Mapping[str, str]]:
    """An ONNX artifact as a SavedModel of operators that TFLite has, in the worker's own folder; and by the name of
    each of them the node that it was made for."""
    folder = Path("lowered")
    lowered = lowered_with_names(source, TFLITE)
    weights_bytes = sum(int(each.shape.num_elements()) * each.dtype.size for each in lowered.module.weights)
    if weights_bytes > _MOST_BYTES:  # of every precision: the converter begins with them as they are
        raise Refused(
            f"a TFLite file ends at 2 GB, and the weights of this model take {weights_bytes / 1e9:.1f} GB",
            fix=_MEND,
        )
    save(lowered, folder)
    origins = lowered.origins
    del lowered
    gc.collect()  # functions and variables refer to each other in a circle, and would be there through the conversion
    return folder, origins


def _of(operator: str, dtype: str) -> str:
    """The dtype that an operator of TensorFlow's has no kernel for, where it has one for others."""
    from tensorflow.lite.python.schema_py_generated import BuiltinOperator

    kernel = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operator).upper()
    is_told = dtype == "f64" or (dtype in _DTYPES and hasattr(BuiltinOperator, kernel))
    return f" of {_DTYPES[dtype]}" if is_told else ""


def _reason(text: str, origins: Mapping[str, str]) -> str:
    """The operators that the converter names, each with the first node that it was made for; or the first sentence of
    its error."""
    named = re.findall(r"(?:TF Select|Custom) ops: ([^\n]+)", text)
    if named:
        places = re.findall(r"error: loc\([^\n]*?\"([^\"@]+)@[^\n]*?'tf\.(\w+)' op is neither", text)
        nodes = {operator: origins[name] for name, operator in reversed(places) if name in origins}
        dtypes = dict(re.findall(r"\btf\.(\w+)\(tensor<(?:[^<>]*x)?(\w+)>", text))
        each = ", ".join(named).split(", ")
        told = [one + _of(one, dtypes.get(one, "")) for one in each]
        placed = [f"{one} ({nodes[name]})" if name in nodes else one for name, one in zip(each, told, strict=True)]
        return f"TFLite has no kernel for {', '.join(placed)}"
    found = re.search(r"error: (?:loc\(.*?\): )?([^\n]+)", text)
    return f"TensorFlow's TFLite converter failed: {found[1] if found else text.strip().splitlines()[0]}"
