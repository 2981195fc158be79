"""Files of a bundle at work in a process without transload: `python -P standalone_host.py TASK FOLDER < tasks.json`.

Each line of stdin is an infer request of the Open Inference Protocol; each line of stdout the answer, or
{"error": ...}. FOLDER is on sys.path, and holds the bundle's files and its artifact.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import types
from typing import Any

FOLDER = sys.argv[2]
sys.path.insert(0, FOLDER)


def answers_of_runtime() -> Any:
    runtime = importlib.import_module("artifact_runtime")
    model = runtime.ArtifactModel(FOLDER)

    def answer(document: Any) -> Any:
        try:
            return model.answer(document)
        except runtime.WrongInput as error:
            return {"error": str(error)}

    return answer


def answers_of_triton() -> Any:
    """model.py, with what Triton's stub gives it."""
    import numpy as np

    class Tensor:
        def __init__(self, name: str, array: Any) -> None:
            assert array.ndim, "Triton has no single numbers"
            self.name, self.array = name, array

        def as_numpy(self) -> Any:
            return self.array

    class TritonError(Exception):
        INVALID_ARG = 3

    utils: Any = types.ModuleType("triton_python_backend_utils")
    utils.Tensor, utils.TritonError = Tensor, TritonError
    utils.InferenceResponse = lambda tensors, error=None: (tensors, error)
    utils.get_input_tensor_by_name = lambda request, name: request[name]
    runtime = importlib.import_module("artifact_runtime")
    utils.triton_string_to_numpy = lambda text: np.dtype(runtime.DATATYPES[text.removeprefix("TYPE_")])
    sys.modules["triton_python_backend_utils"] = utils
    model = importlib.import_module("model").TritonPythonModel()
    with open(os.path.join(FOLDER, "artifact.json")) as file:  # noqa: PTH118, PTH123
        outputs = json.load(file)["signature"]["outputs"]
    rows = [{"name": row["name"], "data_type": f"TYPE_{runtime.NAMES[row['dtype']]}"} for row in outputs]
    place = {"model_repository": os.path.dirname(FOLDER), "model_version": os.path.basename(FOLDER)}  # noqa: PTH119, PTH120
    model.initialize({**place, "model_config": json.dumps({"output": rows})})

    def answer(document: Any) -> Any:
        request = {
            row["name"]: Tensor(
                row["name"], np.array(row["data"], runtime.DATATYPES[row["datatype"]]).reshape(row["shape"])
            )
            for row in document["inputs"]
        }
        ((tensors, error),) = model.execute([request])
        if error is not None:
            return {"error": str(error.args[0])}
        return {
            "outputs": [
                {"name": tensor.name, "shape": tensor.array.shape, "data": tensor.array.reshape(-1).tolist()}
                for tensor in tensors
            ]
        }

    return answer


def answers_of_torchserve() -> Any:
    """handler.py, with a worker's context."""

    class Context:
        def __init__(self) -> None:
            self.system_properties = {"model_dir": FOLDER}
            self.status = (200, 0)

        def set_response_status(self, code: int, idx: int) -> None:
            self.status = (code, idx)

    handler, context = importlib.import_module("handler").InferHandler(), Context()
    handler.initialize(context)

    def answer(document: Any) -> Any:
        """Ask with a body that is parsed, and with the same as bytes beside one that is no JSON."""
        context.status = (200, 0)
        (parsed,) = handler.handle([{"body": document}], context)
        status = context.status
        raw, broken = handler.handle([{"data": json.dumps(document).encode()}, {"body": b"{"}], context)
        assert (raw, context.status) == (parsed, (400, 1)), "the second of the batch is refused, and no other"
        assert broken["error"].startswith("the request is no JSON: ")
        return {**parsed, "status": status[0]}

    return answer


if __name__ == "__main__":
    assert "transload" not in sys.modules
    tasks = {"runtime": answers_of_runtime, "triton": answers_of_triton, "torchserve": answers_of_torchserve}
    ask = tasks[sys.argv[1]]()
    for line in sys.stdin:
        print(json.dumps(ask(json.loads(line))), flush=True)
