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


def answers_of_ray_serve() -> Any:
    """app.py without Ray, and without the starlette that Ray brings: the replica is called as Ray calls it."""
    import asyncio

    class JSONResponse:
        def __init__(self, content: Any, status_code: int) -> None:
            self.body, self.status_code = json.dumps(content).encode(), status_code

    responses: Any = types.ModuleType("starlette.responses")
    responses.JSONResponse = JSONResponse
    sys.modules["starlette"], sys.modules["starlette.responses"] = types.ModuleType("starlette"), responses
    endpoint = importlib.import_module("app").InferEndpoint("contract", "3")

    def ask(method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
        async def read() -> Any:
            return json.loads(body)

        request = types.SimpleNamespace(method=method, url=types.SimpleNamespace(path=path), json=read)
        reply = asyncio.run(endpoint(request))
        return reply.status_code, json.loads(reply.body)

    assert ask("GET", "/v2/health/ready") == (200, {"ready": True})
    assert ask("GET", "/v2/models/contract/ready") == (200, {"name": "contract", "ready": True})
    status, metadata = ask("GET", "/v2/models/contract")
    assert (status, metadata["inputs"][0]) == (200, {"name": "values", "datatype": "FP32", "shape": [-1, 2, 3]})
    assert ask("GET", "/v2/models/other") == (404, {"error": "no page for GET /v2/models/other"})
    status, broken = ask("POST", "/v2/models/contract/infer", b"{")
    assert (status, broken["error"][:24]) == (400, "the request is no JSON: ")

    def answer(document: Any) -> Any:
        status, reply = ask("POST", "/v2/models/contract/infer", json.dumps(document).encode())
        return {**reply, "status": status}

    return answer


def answers_of_sagemaker() -> Any:
    """code/inference.py in the order in which SageMaker's toolkit calls it, with its error."""

    class GenericInferenceToolkitError(Exception):
        def __init__(self, status: int, message: str) -> None:
            super().__init__(message)
            self.status = status

    errors: Any = types.ModuleType("sagemaker_inference.errors")
    errors.GenericInferenceToolkitError = GenericInferenceToolkitError
    sys.modules |= {
        "sagemaker_inference": types.ModuleType("sagemaker_inference"),
        "sagemaker_inference.errors": errors,
    }
    sys.path.insert(0, os.path.join(FOLDER, "code"))  # noqa: PTH118
    code = importlib.import_module("inference")
    model = code.model_fn(FOLDER)

    def ask(body: bytes, content_type: str) -> Any:
        try:
            text, kind = code.output_fn(code.predict_fn(code.input_fn(body, content_type), model), "*/*")
        except GenericInferenceToolkitError as error:
            return {"error": str(error), "status": error.status}
        assert kind == "application/json"
        return {**json.loads(text), "status": 200}

    assert ask(b"1,2", "text/csv") == {"error": "the content type is application/json, got text/csv", "status": 415}
    assert ask(b"{", "application/json")["status"] == 400
    return lambda document: ask(json.dumps(document).encode(), "application/json; charset=utf-8")


TASKS = {
    "runtime": answers_of_runtime, "triton": answers_of_triton, "torchserve": answers_of_torchserve,
    "ray-serve": answers_of_ray_serve, "sagemaker": answers_of_sagemaker,
}  # fmt: skip

if __name__ == "__main__":
    assert "transload" not in sys.modules
    ask = TASKS[sys.argv[1]]()
    for line in sys.stdin:
        print(json.dumps(ask(json.loads(line))), flush=True)
