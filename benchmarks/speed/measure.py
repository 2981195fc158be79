"""Times one net's files in one process, in the same rounds: measure.py KIND BATCH ROUNDS NAME=PATH ...

KIND is saved-model or tflite. The first file is what the ratios are held against. One thread. Prints JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

os.environ.update({"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"})

from transload.pipeline.bench.comparison import compare
from transload.pipeline.bench.rounds import RoundsPlan, empty_series, run_rounds
from transload.pipeline.bench.statistics import summary

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


def saved_model(path: Path, batch: int) -> Called:
    """A SavedModel's serving_default, called as a server calls it: no Python but the call itself."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    loaded = tf.saved_model.load(str(path))
    function = loaded.signatures["serving_default"]
    feeds = {name: tf.constant(_sample(spec.shape, spec.dtype.as_numpy_dtype, batch))
             for name, spec in function.structured_input_signature[1].items()}  # fmt: skip

    def call() -> object:
        _keep = loaded
        return [each.numpy() for each in function(**feeds).values()]

    return Called(call)


def tflite(path: Path, batch: int) -> Called:
    """A TFLite file in the interpreter, with XNNPACK."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=1)
    for each in interpreter.get_input_details():
        sample = _sample(each["shape_signature"], each["dtype"], batch)
        interpreter.resize_tensor_input(each["index"], sample.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(each["index"], sample)
    return Called(interpreter.invoke)


def _sample(shape: Any, dtype: Any, batch: int) -> Any:
    """Numbers like pictures', or small indices; an unknown axis is the batch."""
    sizes = [batch if size is None or int(size) < 0 else int(size) for size in shape]
    rng = np.random.default_rng(0)
    whole = np.issubdtype(np.dtype(dtype), np.integer)
    return rng.integers(0, 100, sizes).astype(dtype) if whole else rng.standard_normal(sizes).astype(dtype)


def main() -> None:
    """Measure and print."""
    kind, batch, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    files = dict(each.split("=", 1) for each in sys.argv[4:])
    opened = {"saved-model": saved_model, "tflite": tflite}[kind]
    subjects = {(name, kind): opened(Path(path), batch) for name, path in files.items()}
    plan = RoundsPlan(batches=(batch,), rounds=rounds)
    series = empty_series(subjects, plan)
    run_rounds(subjects, series, plan, 0, rng=Random(0))  # noqa: S311  the order of turns
    first, found = next(iter(series.values())), {}
    for each in series.values():
        held = compare(each, first)
        assert held is not None
        found[each.pair[0]] = {
            "p50_s": summary(each.samples_s, batch).p50_s,
            "calls": len(each.samples_s),
            "ratio": held.center,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
