"""Times a session of ours beside the bare call that it wraps, in one process: overhead_measure.py KIND FOLDER ROUNDS.

KIND is onnxruntime or tensorflow; FOLDER is an artifact's. The bare call of TensorFlow is TF_SessionRun of the C API,
called by ctypes, which adds about 1 us of its own to it. Prints {NAME: {p50_s, log_ratio}} as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

os.environ.update({"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"})

from transload.models.artifact import Artifact, read_artifact
from transload.pipeline.drift.sessions import open_session
from transload.pipeline.measure.bench.comparison import log_ratios
from transload.pipeline.measure.bench.rounds import RoundsPlan, empty_series, run_rounds
from transload.pipeline.measure.bench.statistics import summary

THREADS = 1
Feeds = Mapping[str, np.ndarray[Any, Any]]
DTYPES = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int64": 9, "bool": 10}  # TF_DataType


WARM_UP = 3


class Called:
    """Something that is called, as a subject of the rounds."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def __call__(self, method: str, **options: Any) -> Any:
        """Call a method, as a worker would."""
        return getattr(self, method)(**options)

    def prepare(self, batch: int) -> Mapping[str, Any]:
        """Warm up."""
        first, *others = self.chunk(batch, 1 + WARM_UP)["samples_s"]
        warm = {"first_call_s": first, "call_s": min(others), "warm_up_s": first + sum(others)}
        return {**warm, "load_s": 0.0, "timer_s": 0.0, "resident_bytes": 0, "answers": None}

    def chunk(self, batch: int, calls: int) -> Mapping[str, Any]:  # noqa: ARG002
        """The seconds of each call."""
        samples = []
        for _ in range(calls):
            started = time.perf_counter()
            self._call()
            samples.append(time.perf_counter() - started)
        return {"samples_s": samples}

    def device(self) -> str:
        """One core."""
        return "cpu"


def bare_onnxruntime(artifact: Artifact, feeds: Feeds) -> Callable[[], object]:
    """InferenceSession.run with the options of our session."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    inner = onnxruntime.InferenceSession(str(artifact.path), options, providers=["CPUExecutionProvider"])
    names = [spec.name for spec in artifact.signature.outputs]
    return lambda: inner.run(names, feeds)


class _Output(ctypes.Structure):
    _fields_ = [("oper", ctypes.c_void_p), ("index", ctypes.c_int)]


class BareSessionRun:
    """TF_SessionRun on input tensors that are made once; each output is copied into an array."""

    def __init__(self, artifact: Artifact, feeds: Feeds) -> None:
        import tensorflow as tf

        self._lib = _load_c_api(Path(tf.__file__).parent)
        self._status = self._lib.TF_NewStatus()
        graph, options = self._lib.TF_NewGraph(), self._lib.TF_NewSessionOptions()
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=THREADS, inter_op_parallelism_threads=-1
        ).SerializeToString()
        self._lib.TF_SetConfig(options, config, len(config), self._status)
        tags = (ctypes.c_char_p * 1)(b"serve")
        self._session = self._lib.TF_LoadSessionFromSavedModel(
            options, None, str(artifact.path).encode(), tags, 1, graph, None, self._status
        )
        self._check()
        inputs, outputs = _tensor_names(artifact)
        self._inputs, self._outputs = self._places(graph, inputs), self._places(graph, outputs)
        values = [self._tensor(np.ascontiguousarray(feeds[spec.name])) for spec in artifact.signature.inputs]
        self._values = (ctypes.c_void_p * len(values))(*values)
        self._dtypes = [np.dtype(spec.dtype) for spec in artifact.signature.outputs]

    def __call__(self) -> list[np.ndarray[Any, Any]]:
        """Run, and copy the outputs."""
        lib, count = self._lib, len(self._outputs)
        answers = (ctypes.c_void_p * count)()
        lib.TF_SessionRun(
            self._session, None, self._inputs, self._values, len(self._inputs), self._outputs, answers, count,
            None, 0, None, self._status,
        )  # fmt: skip
        self._check()
        arrays = []
        for tensor, dtype in zip(answers, self._dtypes, strict=True):
            shape = [lib.TF_Dim(tensor, axis) for axis in range(lib.TF_NumDims(tensor))]
            array = np.empty(shape, dtype)
            ctypes.memmove(array.ctypes.data, lib.TF_TensorData(tensor), array.nbytes)
            lib.TF_DeleteTensor(tensor)
            arrays.append(array)
        return arrays

    def _places(self, graph: int, names: Sequence[str]) -> Any:
        places = (_Output * len(names))()
        for at, name in enumerate(names):
            operation, _, index = name.partition(":")
            places[at].oper = self._lib.TF_GraphOperationByName(graph, operation.encode())
            places[at].index = int(index)
        return places

    def _tensor(self, array: np.ndarray[Any, Any]) -> int:
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        tensor: int = self._lib.TF_AllocateTensor(DTYPES[array.dtype.name], shape, array.ndim, array.nbytes)
        ctypes.memmove(self._lib.TF_TensorData(tensor), array.ctypes.data, array.nbytes)
        return tensor

    def _check(self) -> None:
        if self._lib.TF_GetCode(self._status):
            raise SystemExit(f"TensorFlow's C API: {self._lib.TF_Message(self._status).decode()}")


def _load_c_api(folder: Path) -> Any:
    """Return the C API of TensorFlow's wheel, with the types of what is called here."""
    lib = ctypes.CDLL(str(folder / "libtensorflow_cc.so.2"))
    for name in ("TF_NewStatus", "TF_NewGraph", "TF_NewSessionOptions", "TF_LoadSessionFromSavedModel"):
        getattr(lib, name).restype = ctypes.c_void_p
    for name in ("TF_GraphOperationByName", "TF_AllocateTensor", "TF_TensorData"):
        getattr(lib, name).restype = ctypes.c_void_p
    lib.TF_Message.restype, lib.TF_Dim.restype = ctypes.c_char_p, ctypes.c_int64
    pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    lib.TF_SetConfig.argtypes = [pointer, ctypes.c_char_p, size, pointer]
    lib.TF_LoadSessionFromSavedModel.argtypes = [
        pointer, pointer, ctypes.c_char_p, pointer, number, pointer, pointer, pointer,
    ]  # fmt: skip
    lib.TF_GraphOperationByName.argtypes = [pointer, ctypes.c_char_p]
    lib.TF_AllocateTensor.argtypes = [number, pointer, number, size]
    lib.TF_SessionRun.argtypes = [
        pointer, pointer, pointer, pointer, number, pointer, pointer, number, pointer, number, pointer, pointer,
    ]  # fmt: skip
    for name in ("TF_TensorData", "TF_DeleteTensor", "TF_NumDims", "TF_GetCode", "TF_Message"):
        getattr(lib, name).argtypes = [pointer]
    lib.TF_Dim.argtypes = [pointer, number]
    return lib


def _tensor_names(artifact: Artifact) -> tuple[list[str], list[str]]:
    """Return the names of the tensors that serving_default feeds and fetches, in the record's order."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    saved = SavedModel.FromString((artifact.path / "saved_model.pb").read_bytes())
    served = next(graph for graph in saved.meta_graphs if "serve" in graph.meta_info_def.tags)
    signature = served.signature_def["serving_default"]
    return (
        [signature.inputs[spec.name].name for spec in artifact.signature.inputs],
        [signature.outputs[spec.name].name for spec in artifact.signature.outputs],
    )


def main() -> None:
    """Measure and print."""
    kind, folder, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    artifact, rng = read_artifact(folder), np.random.default_rng(0)
    feeds = {
        spec.name: rng.standard_normal([1 if isinstance(axis, str) else axis for axis in spec.shape]).astype(spec.dtype)
        for spec in artifact.signature.inputs
    }
    session: Any = open_session(kind, folder, threads=THREADS)
    bare = bare_onnxruntime(artifact, feeds) if kind == "onnxruntime" else BareSessionRun(artifact, feeds)
    answers = [np.asarray(answer) for answer in bare()]  # type: ignore[attr-defined]
    for answer, own in zip(answers, session.bind(feeds)(), strict=True):
        np.testing.assert_array_equal(answer, own)  # a bare loop over another model would prove nothing
    calls = {"bare": bare, "bound": session.bind(feeds), "run": lambda: session.run(feeds)}
    subjects = {(name, kind): Called(call) for name, call in calls.items()}
    plan = RoundsPlan(batches=(1,), rounds=rounds)
    series = empty_series(subjects, plan)
    run_rounds(subjects, series, plan, 0, rng=Random(os.getpid()))  # noqa: S311  the order of turns
    first = series[("bare", kind), 1]
    found = {
        name: {
            "p50_s": summary(series[(name, kind), 1].samples_s, 1).p50_s,
            "log_ratio": float(log_ratios(series[(name, kind), 1], first)[0]),
        }
        for name in calls
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
