"""One way each of answering a case: a model on disk and feeds by name in, arrays in the model's order out.

What a backend raises is an error (a refusal is one); what it answers is right or WRONG.
"""

from __future__ import annotations

import ctypes
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper

from transload.converters.onnx_to_tf.kernels.dialects import TENSORFLOW, TFLITE, Kernels
from transload.models.errors import Refused

Array = np.ndarray[Any, np.dtype[Any]]
Answer = Callable[[Path, Mapping[str, Array], Path], Sequence[Array]]
SIGNATURE = "serving_default"
NEWEST_OF_ONNXRUNTIME = 26
_ONNX2TF = Path(__file__).resolve().parents[1] / "zoo" / ".onnx2tf"  # where `make conformance` installs it


def onnxruntime(model: Path, feeds: Mapping[str, Array], _folder: Path) -> Sequence[Array]:
    """ONNX Runtime; an opset that it cannot load is stamped down to the newest that it can. It takes and gives dtypes
    that numpy has only by ml_dtypes as values of its own."""
    import onnxruntime as ort

    loaded = onnx.load(model)
    for each in loaded.opset_import:
        if each.domain in ("", "ai.onnx") and each.version > NEWEST_OF_ONNXRUNTIME:
            each.version = NEWEST_OF_ONNXRUNTIME
    loaded.ir_version = min(loaded.ir_version, 11)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(loaded.SerializeToString(), options, providers=["CPUExecutionProvider"])
    values = {name: _ort_value(feed) for name, feed in feeds.items()}
    return [_array_of(each) for each in session.run_with_ort_values(None, values)]


def _ort_value(array: Array) -> Any:
    """An array as ONNX Runtime's own value: of a dtype that numpy lacks, the bytes that ONNX writes of it."""
    import onnxruntime as ort

    if array.dtype.isbuiltin == 1:  # 2 is another package's
        return ort.OrtValue.ortvalue_from_numpy(np.asarray(array))
    written = onnx.numpy_helper.from_array(array)
    value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), written.data_type)
    ctypes.memmove(value.data_ptr(), written.raw_data, len(written.raw_data))
    return value


def _array_of(value: Any) -> Array:
    """The reverse of `_ort_value`."""
    kind, shape = value.element_type(), value.shape()
    if onnx.helper.tensor_dtype_to_np_dtype(kind).isbuiltin == 1:
        return np.asarray(value.numpy())
    data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.asarray(onnx.numpy_helper.to_array(onnx.TensorProto(data_type=kind, dims=shape, raw_data=data)))


def saved_model(model: Path, feeds: Mapping[str, Array], folder: Path) -> Sequence[Array]:
    """Our lowering, saved and loaded again."""
    return run_saved_model(_saved(model, TENSORFLOW, folder), feeds, _outputs(model))


def tflite(model: Path, feeds: Mapping[str, Array], folder: Path) -> Sequence[Array]:
    """Our lowering for TFLite, by builtin kernels."""
    return run_tflite(flat_of(_saved(model, TFLITE, folder)), feeds, _outputs(model))


def onnx2tf_saved_model(model: Path, feeds: Mapping[str, Array], folder: Path) -> Sequence[Array]:
    """The other converter, with inputs kept in their layout."""
    return run_saved_model(_by_onnx2tf(model, folder), feeds, None)


def onnx2tf_tflite(model: Path, feeds: Mapping[str, Array], folder: Path) -> Sequence[Array]:
    """The other converter's TFLite, of the same conversion."""
    from ai_edge_litert.interpreter import Interpreter

    (file,) = _by_onnx2tf(model, folder).glob("*_float32.tflite")
    interpreter = Interpreter(model_content=file.read_bytes(), num_threads=1)
    by_name = {each["name"].removeprefix("serving_default_").removesuffix(":0"): each["index"]
               for each in interpreter.get_input_details()}  # fmt: skip
    for name, index in by_name.items():
        interpreter.resize_tensor_input(index, feeds[name].shape)
    interpreter.allocate_tensors()
    for name, index in by_name.items():
        interpreter.set_tensor(index, feeds[name])
    interpreter.invoke()
    return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]


BACKENDS: Mapping[str, Answer] = {
    "onnxruntime": onnxruntime,
    "saved-model": saved_model,
    "tflite": tflite,
    "onnx2tf saved-model": onnx2tf_saved_model,
    "onnx2tf tflite": onnx2tf_tflite,
}


def _outputs(model: Path) -> list[str]:
    return [each.name for each in onnx.load(model).graph.output]


def _saved(model: Path, kernels: Kernels, folder: Path) -> Path:
    from transload.converters.onnx_to_tf.lower_model import lower
    from transload.converters.to_saved_model.saved_model_from_onnx import save

    save(lower(model, kernels), folder / "saved")
    return folder / "saved"


def flat_of(saved: Path) -> bytes:
    """A SavedModel as TFLite of builtin kernels."""
    from tensorflow.lite.python.convert_phase import ConverterError

    from transload.converters.to_tflite.tflite_from_onnx import converter_of

    try:
        return bytes(converter_of(saved).convert())
    except ConverterError as error:
        raise Refused(f"TFLite's converter: {error}", fix="none") from error


def run_saved_model(saved: Path, feeds: Mapping[str, Array], outputs: Sequence[str] | None) -> Sequence[Array]:
    """Load and call; outputs by name, or in the signature's own order."""
    import tensorflow as tf

    # As servers call it: by the signature's tensors, in a session of its own, without Python functions.
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], str(saved)).signature_def[SIGNATURE]
        fed = {signature.inputs[name].name: feeds[name] for name in signature.inputs}
        names = list(outputs) if outputs is not None else sorted(signature.outputs)
        return list(session.run([signature.outputs[name].name for name in names], fed))


def run_tflite(flat: bytes, feeds: Mapping[str, Array], outputs: Sequence[str] | None) -> Sequence[Array]:
    """Load and call the file's signature; outputs by name, or in the signature's own order."""
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=flat, num_threads=1).get_signature_runner(SIGNATURE)
    answers = runner(**{name: feeds[name] for name in runner.get_input_details()})
    return [np.array(answers[name]) for name in (outputs if outputs is not None else sorted(answers))]


def _by_onnx2tf(model: Path, folder: Path) -> Path:
    """Converted by onnx2tf, whose outputs are named by their place."""
    sys.path.append(str(_ONNX2TF))
    import onnx2tf

    given = folder / "given.onnx"
    shutil.copy(model, given)
    onnx2tf.convert(
        input_onnx_file_path=str(given),
        output_folder_path=str(folder / "onnx2tf"),
        keep_shape_absolutely_input_names=[each.name for each in onnx.load(model).graph.input],
        output_signaturedefs=True,
        non_verbose=True,
    )
    return folder / "onnx2tf"
