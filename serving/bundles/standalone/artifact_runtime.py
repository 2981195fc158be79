"""Open an artifact of transload without transload: its record, its payload, and the library that runs it.

`ArtifactModel(folder)` reads artifact.json in the folder. `run` takes and returns arrays by name; `answer` takes and
returns documents of the Open Inference Protocol (https://github.com/kserve/open-inference-protocol).
"""

from __future__ import annotations

import base64
import json
import os
import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

DATATYPES = {
    "BOOL": "bool", "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "UINT8": "uint8",
    "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "FP16": "float16", "FP32": "float32",
    "FP64": "float64",
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DATATYPES.items()}
_ACCEPTED = {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}  # kinds of numbers that become a dtype without loss
_Call = Callable[[Sequence[Any]], Sequence[Any]]


class WrongInput(ValueError):
    """A request that does not fit the model: the client's mistake."""


class ArtifactModel:
    """A loaded artifact. Several threads may call it."""

    def __init__(self, folder: str | Path) -> None:
        record = json.loads((Path(folder) / "artifact.json").read_text())
        form = record["target"].partition(":")[0]
        self.inputs: list[dict[str, Any]] = record["signature"]["inputs"]
        self.outputs: list[dict[str, Any]] = record["signature"]["outputs"]
        opener, file = _OPENERS[form]
        names = [row["name"] for row in self.outputs]
        self.settings = tuned_settings(Path(folder), form)
        golden = Path(folder) / "golden.json"
        self._golden: dict[str, Any] = json.loads(golden.read_text())["calls"][0] if golden.is_file() else {}
        self._is_sound = True  # the library answered when it was last called
        file = record.get("file", file)  # where another system has the payload under a name of its own
        self._call: _Call = opener(Path(folder) / file, [row["name"] for row in self.inputs], names, self.settings)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the output arrays by name. Raises WrongInput where the feeds do not fit the signature."""
        self._check(feeds)
        try:
            answers = self._call([feeds[row["name"]] for row in self.inputs])
            self._is_sound = True
        except Exception:
            self._is_sound = False
            raise
        return {row["name"]: np.asarray(answer) for row, answer in zip(self.outputs, answers)}  # noqa: B905

    def is_ready(self) -> bool:
        """Return whether the model answers: where a call failed, a golden sample is asked, if the bundle has one."""
        try:
            if not self._is_sound and self._golden:
                self.run({row["name"]: _decode(row) for row in self._golden["inputs"]})
        except Exception:  # noqa: BLE001  (whatever the library raises, it does not answer)
            return False
        return True

    def answer(self, document: Any) -> dict[str, Any]:
        """Return the answer to an infer request in JSON. Raises WrongInput where the request does not fit."""
        try:
            rows = {row["name"]: row for row in document["inputs"]}
            specs = {spec["name"]: spec for spec in self.inputs}
            feeds = {name: _read_tensor(row, specs.get(name)) for name, row in rows.items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise WrongInput(f"no infer request of the Open Inference Protocol: {error!r}") from error
        outputs = [
            {"name": name, "shape": list(array.shape), "datatype": NAMES[array.dtype.name],
             "data": array.reshape(-1).tolist()}
            for name, array in self.run(feeds).items()
        ]  # fmt: skip
        return {"outputs": outputs}

    def _check(self, feeds: Mapping[str, Any]) -> None:
        names = [row["name"] for row in self.inputs]
        if sorted(feeds) != sorted(names):
            raise WrongInput(f"the model takes {', '.join(names)}, got {', '.join(feeds)}")
        sizes: dict[str, int] = {}
        for row in self.inputs:
            array = feeds[row["name"]]
            fits = array.dtype.name == row["dtype"] and len(array.shape) == len(row["shape"])
            for size, axis in zip(array.shape, row["shape"]):  # noqa: B905
                fits = fits and size == (sizes.setdefault(axis, size) if isinstance(axis, str) else axis)
            if not fits:
                sent, wanted = f"{array.dtype}{list(array.shape)}", f"{row['dtype']}{row['shape']}"
                raise WrongInput(f"{row['name']} is {sent}, expected {wanted}")
        for row in self.inputs:
            for axis, (low, high, *step) in row.get("bounds", {}).items():
                size = sizes[axis]
                if size < low or (high is not None and size > high) or (size - low) % (step or [1])[0]:
                    raise WrongInput(f"the axis {axis} has the size {size}, and the model takes {low}..{high or ''}")


def _decode(row: Mapping[str, Any]) -> Any:
    """Return the array of a tensor in golden.json."""
    return np.frombuffer(base64.b64decode(row["base64"]), row["dtype"]).reshape(row["shape"])


def _read_tensor(row: Mapping[str, Any], spec: Mapping[str, Any] | None) -> Any:
    """Return the array of one input in JSON; flat and nested data are both allowed."""
    if row["datatype"] not in DATATYPES:
        raise WrongInput(f"{row['name']}: the datatype {row['datatype']} is not carried")
    dtype = np.dtype(DATATYPES[row["datatype"]])
    try:
        numbers = np.array(row["data"])
        shape = [] if spec is not None and not spec["shape"] else row["shape"]
        array = numbers.astype(dtype).reshape(shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise WrongInput(f"{row['name']}: {error}") from error
    lossless = dtype.kind == "f" or bool((array.reshape(-1) == numbers.reshape(-1)).all())
    if numbers.size and (numbers.dtype.kind not in _ACCEPTED[dtype.kind] or not lossless):
        raise WrongInput(f"{row['name']} holds values that are no {row['datatype']}")
    return array


def tuned_settings(folder: Path, form: str) -> dict[str, Any]:
    """Return the settings of tuning.json that were tuned on such a processor, with as many cores and these versions of
    the libraries; none where there are none."""
    path = folder / "tuning.json"
    entries = json.loads(path.read_text())["entries"] if path.is_file() else []
    cpu, cores = _cpu_model(), len(os.sched_getaffinity(0))
    for entry in entries:
        place = entry["place"]
        versions = all(_version_of(module) == version for module, version in place["libraries"].items())
        here = place["device"], place["cpu"], place["cores"] == cores, place["runtime"]
        if versions and here == ("cpu", cpu, True, _RUNTIMES.get(form)):
            return dict(entry.get("settings", {}))
    return {}


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version_of(module: str) -> str | None:
    for name, tail in (("onnxruntime-gpu", "+gpu"), (module, "")) if module == "onnxruntime" else ((module, ""),):
        try:
            return metadata.version(name) + tail
        except metadata.PackageNotFoundError:
            continue
    return None


def _open_onnx(path: Path, inputs: Sequence[str], outputs: Sequence[str], settings: Mapping[str, Any]) -> _Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if settings:
        threads = settings.get("threads", 1)
        options.intra_op_num_threads = threads
        level = settings.get("level", "ORT_ENABLE_ALL")
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        if settings.get("execution_mode") == "ORT_PARALLEL":
            options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
            options.inter_op_num_threads = threads
        if not settings.get("allow_spinning", True):
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if settings.get("dynamic_block_base"):
            options.add_session_config_entry("session.dynamic_block_base", str(settings["dynamic_block_base"]))
        if settings.get("denormal_as_zero"):
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
        if settings.get("exact_bytes"):
            options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda values: list(session.run(list(outputs), dict(zip(inputs, values))))  # noqa: B905


def _open_torchscript(
    path: Path,
    inputs: Sequence[str],  # noqa: ARG001
    outputs: Sequence[str],
    settings: Mapping[str, Any],
) -> _Call:
    import torch

    module: Any = torch.jit.load(str(path), map_location="cpu").eval()  # type: ignore[no-untyped-call]
    if settings:
        torch.set_num_threads(settings.get("threads", 1))
        torch.jit.enable_onednn_fusion(settings.get("onednn_fusion", False))
        if settings.get("channels_last"):
            module.to(memory_format=torch.channels_last)
        if settings.get("freeze", True) and hasattr(module, "training"):
            module = torch.jit.freeze(module, optimize_numerics=settings.get("optimise", True))
        if settings.get("optimize_for_inference"):
            module = torch.jit.optimize_for_inference(module)
    return _call_of_module(module, outputs)


def _open_pt2(
    path: Path,
    inputs: Sequence[str],  # noqa: ARG001
    outputs: Sequence[str],
    settings: Mapping[str, Any],
) -> _Call:
    import torch

    if settings:
        torch.set_num_threads(settings.get("threads", 1))
    return _call_of_module(torch.export.load(str(path)).module(), outputs)


def _call_of_module(module: Any, outputs: Sequence[str]) -> _Call:
    """Return what calls a module of PyTorch with arrays, and returns those of its outputs in order."""
    import torch

    def call(values: Sequence[Any]) -> Sequence[Any]:
        with torch.no_grad():
            returned = module(*[torch.from_numpy(np.array(value, order="C")) for value in values])
        if isinstance(returned, Mapping):
            returned = [returned[name] for name in outputs]
        tensors = list(returned) if isinstance(returned, list | tuple) else [returned]
        return [tensor.numpy() for tensor in tensors]

    return call


def _open_saved_model(path: Path, inputs: Sequence[str], outputs: Sequence[str], settings: Mapping[str, Any]) -> _Call:
    if settings.get("onednn", "default") != "default":
        os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1" if settings["onednn"] == "on" else "0"
    import tensorflow as tf

    if settings:
        tf.config.threading.set_intra_op_parallelism_threads(settings.get("threads", 1))

    loaded = tf.saved_model.load(str(path))
    function = loaded.signatures["serving_default"]

    def call(values: Sequence[Any], _alive: Any = loaded) -> Sequence[Any]:
        answers = function(**{name: tf.constant(value) for name, value in zip(inputs, values)})  # noqa: B905
        return [answers[name].numpy() for name in outputs]

    return call


def _open_tflite(path: Path, inputs: Sequence[str], outputs: Sequence[str], settings: Mapping[str, Any]) -> _Call:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    tuned = {
        "num_threads": settings.get("threads", 1),
        "experimental_op_resolver_type": OpResolverType[settings.get("kernels", "AUTO")],
        "experimental_default_delegate_latest_features": settings.get("xnnpack_latest", False),
        "experimental_disable_delegate_clustering": not settings.get("delegate_clustering", True),
    }
    interpreter = Interpreter(model_path=str(path), **(tuned if settings else {}))
    signatures = list(interpreter.get_signature_list())
    named = "serving_default" if "serving_default" in signatures else signatures[0] if signatures else None
    if named is not None:
        runner = interpreter.get_signature_runner(named)
        sources, results = runner.get_input_details(), runner.get_output_details()
    else:
        sources = _by_name(interpreter.get_input_details(), inputs)
        results = _by_name(interpreter.get_output_details(), outputs)
    lock = threading.Lock()  # an interpreter answers one caller at a time

    def call(values: Sequence[Any]) -> Sequence[Any]:
        with lock:
            for name, value in zip(inputs, values):  # noqa: B905
                interpreter.resize_tensor_input(sources[name]["index"], value.shape)
            interpreter.allocate_tensors()
            for name, value in zip(inputs, values):  # noqa: B905
                interpreter.set_tensor(sources[name]["index"], value)
            interpreter.invoke()
            return [interpreter.get_tensor(results[name]["index"]) for name in outputs]

    return call


def _by_name(details: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the tensors of a file without a signature by the names of the record.
    There a tensor is called x, or `serving_default_x:0` for the input x of the SavedModel that it was made from."""
    plain = {row["name"].rpartition(":")[0].replace("serving_default_", "", 1): row for row in details}
    return plain if set(names) <= set(plain) else {row["name"]: row for row in details}


# The format of a record: what opens its payload, and the name of that.
_Opener = Callable[[Path, Sequence[str], Sequence[str], Mapping[str, Any]], _Call]
_OPENERS: dict[str, tuple[_Opener, str]] = {
    "onnx": (_open_onnx, "model.onnx"),
    "torchscript": (_open_torchscript, "model.pt"),
    "pt2": (_open_pt2, "model.pt2"),
    "saved-model": (_open_saved_model, "saved_model"),
    "tflite": (_open_tflite, "model.tflite"),
}
# The runtime whose settings in tuning.json are for that library.
_RUNTIMES = {
    "onnx": "onnxruntime", "torchscript": "torchscript", "pt2": "torch", "saved-model": "tensorflow",
    "tflite": "tflite",
}  # fmt: skip
