"""Compare copies with answers that own_answers.py recorded, by the runtimes alone: nothing of transload is imported.

    python benchmarks/libraries/compare_copies.py FOLDER

Prints JSON: for each copy in FOLDER/out its largest error, relative to the spread of the output, or why there is none.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]
TOLERANCE = 1e-3


def main() -> int:
    folder = Path(sys.argv[1])
    stored = np.load(folder / "answers.npz")
    inputs = {key.removeprefix("input:"): stored[key] for key in stored if key.startswith("input:")}
    expected = [stored[key] for key in stored if key.startswith("output:")]
    runs: dict[str, tuple[str, Callable[[Path, Arrays], list[Any]]]] = {
        "onnx": ("*.onnx", _run_onnx),
        "tflite": ("*.tflite", _run_tflite),
    }
    checks = {}
    for name, (pattern, run) in runs.items():
        file = next((folder / "out" / name).glob(pattern), None)
        if file is not None:
            try:
                checks[name] = _judge(run(file, inputs), expected)
            except Exception as error:  # noqa: BLE001  (runtimes raise types of their own)
                checks[name] = {"same": None, "error": f"{type(error).__name__}: {error}"[:300]}
    print(json.dumps(checks))
    return 0


def _judge(outputs: Sequence[Any], expected: Sequence[Any]) -> dict[str, Any]:
    """Return whether outputs agree, each with the expected one of its shape that is nearest."""
    worst = 0.0
    for values in expected:
        spread = float(np.std(values)) or 1.0
        same_shape = [out for out in outputs if out.shape == values.shape]
        errors = [float(np.max(np.abs(out - values), initial=0)) / spread for out in same_shape]
        worst = max(worst, min(errors, default=float("inf")))
    return {"same": worst <= TOLERANCE, "relative_error": float(f"{worst:.2g}") if np.isfinite(worst) else None}


def _run_onnx(file: Path, inputs: Arrays) -> list[Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    wanted = {node.name for node in session.get_inputs()}
    return list(session.run(None, {name: values for name, values in inputs.items() if name in wanted}))


def _run_tflite(file: Path, inputs: Arrays) -> list[Any]:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(str(file)).get_signature_runner()
    wanted = runner.get_input_details()
    return list(runner(**{name: values for name, values in inputs.items() if name in wanted}).values())


if __name__ == "__main__":
    sys.exit(main())
