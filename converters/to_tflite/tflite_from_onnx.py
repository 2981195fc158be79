"""TFLite from ONNX by our own lowering, and from a SavedModel, in four precisions.

TensorFlow's own converter writes the file. The file does not need the Flex delegate, unless a step's option `flex`
allows TensorFlow's operators too. Where TFLite lacks a kernel, the lowering emits an equivalent (onnx_to_tf/kernels/).
So an ONNX model is lowered anew here, and not taken from the SavedModel that TensorFlow serves.
"""

from __future__ import annotations

import gc
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.artifact import Artifact, read_artifact
from ...models.dataset import CALIBRATION, Dataset, read_dataset
from ...models.errors import BadRequest, Refused
from ...models.formats import Format, Precision, Target
from ...models.job import Job
from ...models.probes.feeds import make_feeds
from ...models.probes.sizes import bounds_within
from ...models.signature import Array, Signature
from ..conversion_records import TfliteOptions
from ..lazy_import import tf
from ..onnx_to_tf.kernels.dialects import TFLITE
from ..patches import private_tensorflow
from ..to_saved_model.saved_model_from_onnx import SIGNATURE, lowered_with_names, save
from ..write_converted import write_converted
from .flatbuffer import count_operators, flex_names, float_operators, model_of, put_in_order, repeated_bytes
from .int8_ranges import Range, better_in_float, calibrated_tensors, known_ranges, with_ranges
from .mixed_precision import choose_float_layers
from .replacements import with_exact_operators
from .xnnpack_workarounds import without_lost_copies, without_shared_places

if TYPE_CHECKING:
    from tensorflow.lite.python.lite import QuantizationMode, TFLiteSavedModelConverterV2

# Dtypes that kernels of TFLite may lack although they take others, by the converter's names.
_DTYPES = {"f64": "float64", "f16": "float16", "i1": "bool"} | {
    f"{kind}i{bits}": f"{kind}int{bits}"
    for kind, bits in (("", 8), ("u", 8), ("", 16), ("u", 16), ("u", 32), ("u", 64))
}
_MAX_WEIGHT_BYTES = (1 << 31) - (1 << 20)  # flatbuffers count in 32 bits, with a sign
_MIN_SHARED_SHARE = 0.002  # of a file's bytes, from which sharing equal weights pays
_LARGEST = 1e38  # a range of infinite width aborts the quantiser's process; the log of 0 is enough for one
_OTHER_FORMATS = "serve this model as SavedModel or ONNX"
_OR_FLEX = "or convert it with --flex (its runtime then needs TensorFlow's Flex delegate)"
MAX_SAMPLES = 128  # one by one: more of them change the ranges little and cost their time


def tflite_fp32(job: Job) -> Mapping[str, Any]:
    """Convert inputs["source"]; weights and arithmetic keep their dtypes."""
    return _convert(job, Precision.FP32)


def tflite_fp16(job: Job) -> Mapping[str, Any]:
    """Convert inputs["source"] with weights as float16; the runtime chooses what it computes in."""
    return _convert(job, Precision.FP16)


def tflite_int8_dynamic(job: Job) -> Mapping[str, Any]:
    """Convert inputs["source"] with weights as int8; a runtime quantises activations by their range in each call."""
    return _convert(job, Precision.INT8_DYNAMIC)


def tflite_int8(job: Job) -> Mapping[str, Any]:
    """Convert inputs["source"] to int8 weights and arithmetic, by ranges measured on inputs["data"]/calibration.npz.

    Inputs and outputs keep their dtypes. The facts name the operators that stay in float: TFLite has no int8 kernel for
    them, or int8 would ruin them (int8_ranges.better_in_float).
    """
    signature = read_artifact(job.inputs["source"]).signature
    data = read_dataset(job.inputs["data"] / CALIBRATION, signature.inputs)
    facts = _convert(job, Precision.INT8, data)
    count = min(len(data), MAX_SAMPLES)
    return {**facts, "calibrated_on": count, "float_operators": float_operators(job.out / Format.TFLITE.spec.payload)}


def _calibrate(converter: TFLiteSavedModelConverterV2, data: Dataset, signature: Signature) -> None:
    """Let a converter write the calibrated model alone: which operators stay in float depends on the ranges."""
    _check_data(data, signature)
    converter.representative_dataset = lambda: samples(data, signature)
    converter.canonicalizing_inf_as_min_max_float = True  # a range that holds an infinity says nothing
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8, tf.lite.OpsSet.TFLITE_BUILTINS]
    converter._experimental_calibrate_only = True


def _quantise(
    calibrated: bytes, data: Dataset, signature: Signature, origins: Mapping[str, str] | None
) -> tuple[bytes, str | None]:
    """Quantise a calibrated model to int8, except for the operators that int8 would ruin.

    With `origins`, layers that win enough for their bytes stay in float too; a sentence on them comes second.
    """
    measured = with_ranges(calibrated, known_ranges(calibrated, _measured_ranges(calibrated, samples(data, signature))))
    ruined = better_in_float(measured)

    def quantise(outputs: Sequence[str]) -> bytes:
        return bytes(private_tensorflow.mlir_quantize(measured, denylisted_nodes=[*ruined, *outputs]))

    if origins is None:
        return quantise(()), None
    # Samples that set no range show what is lost beyond the ranges.
    unseen = data.rows(MAX_SAMPLES, None) if len(data) > MAX_SAMPLES else data
    chosen = choose_float_layers(measured, quantise, list(samples(unseen, signature)), ruined, origins)
    print(chosen.table)
    return quantise([layer.output for layer in chosen.kept]), chosen.summary


def _measured_ranges(calibrated: bytes, feeds: Iterable[dict[str, Array]]) -> dict[int, Range]:
    """Measure the range of each calibrated tensor of the main graph, by its index. An infinity counts as _LARGEST.

    TensorFlow's own calibrator looks at an operator's inputs after it ran. Where the answer was written over an input,
    it notes the answer's range for that input: for scores that of the mask which is added to them.
    """
    interpreter = tf.lite.Interpreter(
        model_content=calibrated,
        experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    runner = interpreter.get_signature_runner(SIGNATURE)
    ranges: dict[int, Range] = {}
    for feed in feeds:
        runner(**feed)
        for tensor in calibrated_tensors(calibrated):
            values = np.clip(np.nan_to_num(interpreter.get_tensor(tensor)), -_LARGEST, _LARGEST)
            if values.size:
                low, high = ranges.get(tensor, (float("inf"), float("-inf")))
                ranges[tensor] = min(low, float(values.min())), max(high, float(values.max()))
    return ranges


def samples(data: Dataset, signature: Signature) -> Iterator[dict[str, Array]]:
    """Yield feeds of the first samples: one sample a call, or as many as the model takes at least."""
    least = bounds_within(signature.inputs, signature.batch).filled.low
    for start in range(min(len(data), MAX_SAMPLES)):
        yield make_feeds(data, np.arange(start, start + least) % len(data), signature)


def _check_data(data: Dataset, signature: Signature) -> None:
    names = sorted(spec.name for spec in signature.inputs)
    if sorted(data.inputs) != names:
        raise BadRequest(
            f"the calibration data holds {', '.join(sorted(data.inputs))}, the model takes {', '.join(names)}",
            fix="give calibration data for each input, by its name",
        )


def _convert(job: Job, precision: Precision, data: Dataset | None = None) -> Mapping[str, Any]:
    """Convert inputs["source"]; int8 is calibrated on `data`."""
    source = read_artifact(job.inputs["source"])
    signature = source.signature
    if source.target.format is Format.ONNX:
        folder, origins = _lower_for_tflite(source)
    else:
        folder, origins = with_exact_operators(source.path), dict[str, str]()
    converter = converter_of(folder)
    options = TfliteOptions.from_json(job.options)
    may_flex, note = options.flex, None
    if may_flex:  # TensorFlow's operators where TFLite has no kernel, as for lists of tensors of unknown length
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    if precision is not Precision.FP32:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision is Precision.FP16:
        converter.target_spec.supported_types = [tf.float16]
    if data is not None:
        _calibrate(converter, data, signature)
    try:
        with warnings.catch_warnings():  # TensorFlow 2.21 calibrates with its own interpreter, and warns of that
            warnings.filterwarnings("ignore", r"\s*Warning: tf.lite.Interpreter is deprecated", UserWarning)
            flat = bytes(converter.convert())
            if data is not None:
                flat, note = _quantise(flat, data, signature, origins if options.keep_float else None)
            flat = without_lost_copies(flat)
            flat = without_shared_places(flat, may_be_empty=any(not bounds.low for bounds in signature.bounds.values()))
    except private_tensorflow.ConverterError as error:
        no_flex = precision is Precision.INT8 or may_flex
        fix = _OTHER_FORMATS if no_flex else f"{_OTHER_FORMATS}, {_OR_FLEX}"
        raise Refused(_reason(str(error), origins), fix=fix) from error
    path = job.out / Format.TFLITE.spec.payload
    path.write_bytes(flat)
    del flat
    put_in_order(path, *([spec.name for spec in specs] for specs in (signature.inputs, signature.outputs)))
    flex = flex_names(model_of(np.memmap(path, mode="r")))
    write_converted(job, Target(Format.TFLITE, precision), signature, flex)
    return {"operators": sum(count_operators(path).values()), "flex": list(flex), "note": note}


def converter_of(folder: Path) -> TFLiteSavedModelConverterV2:
    """Return TensorFlow's converter for a SavedModel's `serving_default`: builtin kernels, constants unchanged."""
    # TFLiteConverter.from_saved_model returns the same, but loads the model first and keeps it in memory.
    converter = private_tensorflow.TFLiteSavedModelConverterV2(str(folder), {tf.saved_model.SERVING}, [SIGNATURE])
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    # By default it silently turns the largest float of a constant into infinity.
    converter.canonicalizing_inf_as_min_max_float = False
    _limit_memory(converter)
    return converter


def _limit_memory(converter: TFLiteSavedModelConverterV2) -> None:
    """Keep a conversion's peak memory near three times the model, instead of six."""
    converter.exclude_conversion_metadata = True  # adding it unpacks the file as a whole and packs it again
    finish = converter._optimize_tflite_model

    def finish_if_it_matters(flat: bytes, mode: QuantizationMode, *rest: object, **named: object) -> bytes:
        """Skip the repacking that shares equal weights where it saves next to nothing; int8 needs it."""
        matters = mode.is_integer_quantization() or repeated_bytes(flat) > _MIN_SHARED_SHARE * len(flat)
        result: bytes = finish(flat, mode, *rest, **named) if matters else flat
        return result

    converter._optimize_tflite_model = finish_if_it_matters


def _lower_for_tflite(source: Artifact) -> tuple[Path, Mapping[str, str]]:
    """Lower an ONNX artifact to a SavedModel of operators that TFLite has, in the worker's own folder.

    Returns the folder, and the ONNX node of each TensorFlow operator by the operator's name.
    """
    folder = Path("lowered")
    lowered = lowered_with_names(source, TFLITE)
    weights_bytes = sum(int(weight.shape.num_elements()) * weight.dtype.size for weight in lowered.module.weights)
    if weights_bytes > _MAX_WEIGHT_BYTES:  # in every precision: the converter starts from the weights in full width
        raise Refused(
            f"a TFLite file ends at 2 GB, and the weights of this model take {weights_bytes / 1e9:.1f} GB",
            fix=_OTHER_FORMATS,
        )
    save(lowered, folder)
    origins = lowered.origins
    del lowered
    gc.collect()  # functions and variables refer to each other in a circle, and would outlive the conversion
    return folder, origins


def _unsupported_dtype(operator: str, dtype: str) -> str:
    """Return " of DTYPE" if TFLite lacks the operator's kernel for this dtype alone, else nothing."""
    kernel = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operator).upper()
    is_known = dtype == "f64" or (
        dtype in _DTYPES and hasattr(private_tensorflow.schema_py_generated.BuiltinOperator, kernel)
    )
    return f" of {_DTYPES[dtype]}" if is_known else ""


def _reason(text: str, origins: Mapping[str, str]) -> str:
    """Return the operators that the converter names, each with its first ONNX node; else its error's first line."""
    lists = re.findall(r"(?:TF Select|Custom) ops: ([^\n]+)", text)
    if lists:
        places = re.findall(r"error: loc\([^\n]*?\"([^\"@]+)@[^\n]*?'tf\.(\w+)' op is neither", text)
        nodes = {operator: origins[name] for name, operator in reversed(places) if name in origins}
        dtypes = dict(re.findall(r"\btf\.(\w+)\(tensor<(?:[^<>]*x)?(\w+)>", text))
        names = ", ".join(lists).split(", ")
        texts = [name + _unsupported_dtype(name, dtypes.get(name, "")) for name in names]
        placed = [f"{text} ({nodes[name]})" if name in nodes else text for name, text in zip(names, texts, strict=True)]
        return f"TFLite has no kernel for {', '.join(placed)}"
    message = re.search(r"error: (?:loc\(.*?\): )?([^\n]+)", text)
    return f"TensorFlow's TFLite converter failed: {message[1] if message else text.strip().splitlines()[0]}"
