"""docs/openapi.json describes the paths that the HTTP listener has, and no others."""

from __future__ import annotations

import ast
import http.client
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from transload.serving.server import http_app, metrics, oip_http, tfserving_rest

DOCUMENT = json.loads((Path(__file__).parents[4] / "docs" / "openapi.json").read_text())
OPERATIONS = {
    (method.upper(), path): operation for path, item in DOCUMENT["paths"].items() for method, operation in item.items()
}
STARTS = ("/healthz", "/monitoring", "/v1/models", "/v2")
PARAMETERS = ("([^/:]+)", "([^/]+)", "([0-9]{1,18})")
UNKNOWN = ("Malformed request", "there is no ")


def expand(pattern: str) -> set[str]:
    """Return the paths of a regular expression of paths, {} for each parameter."""
    for parameter in PARAMETERS:
        pattern = pattern.replace(parameter, "{}")
    group = re.search(r"\((?:\?:)?([^()]*)\)(\??)", pattern)
    if group is None:
        return {pattern}
    choices = [*group[1].split("|"), *([""] if group[2] else [])]
    return {path for choice in choices for path in expand(pattern[: group.start()] + choice + pattern[group.end() :])}


def paths_in(module: ModuleType) -> set[str]:
    """Return the paths that a module's literals name."""
    tree = ast.parse(Path(module.__file__ or "").read_text())
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    paths = {path.rstrip("/") for text in texts if text.startswith(STARTS) for path in expand(text)}
    return paths | ({"/"} & {*texts} if module is http_app else set())


def test_the_document_has_the_paths_of_the_code() -> None:
    written = set().union(*(paths_in(module) for module in (http_app, metrics, oip_http, tfserving_rest)))
    assert written == {re.sub(r"\{\w+\}", "{}", path) for path in DOCUMENT["paths"]}


@pytest.mark.parametrize("signature", ["one", "two"])
def test_each_operation_answers_as_the_document_says(signature: str, request: pytest.FixtureRequest) -> None:
    served: Any = request.getfixturevalue(signature)
    link = http.client.HTTPConnection(served.addresses["rest"], timeout=60)
    for path in DOCUMENT["paths"]:
        for method in ("GET", "POST"):
            link.request(method, path.format(name="m", version="1", label="stable"), b"" if method == "GET" else b"{}")
            reply = link.getresponse()
            text = reply.read().decode()
            is_known = reply.status == 200 or not json.loads(text)["error"].startswith(UNKNOWN)
            assert is_known == ((method, path) in OPERATIONS), (method, path, text)
            if is_known:
                check(OPERATIONS[method, path], reply.status, reply.headers["content-type"], text)
    link.close()


def test_predictions_are_as_the_document_says(two: Any) -> None:
    tensors = [
        {"name": "b", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]},
        {"name": "a", "datatype": "INT64", "shape": [1], "data": [3]},
    ]
    requests = {
        "/v1/models/{name}:predict": {"instances": [{"b": [1, 2], "a": 3}]},
        "/v2/models/{name}/infer": {"id": "7", "inputs": tensors, "outputs": [{"name": "sum"}]},
    }
    link = http.client.HTTPConnection(two.addresses["rest"], timeout=60)
    for path, document in requests.items():
        operation = OPERATIONS["POST", path]
        jsonschema.validate(document, with_components(operation["requestBody"]["content"]["application/json"]))
        link.request("POST", path.format(name="m"), json.dumps(document))
        reply = link.getresponse()
        assert reply.status == 200
        check(operation, reply.status, reply.headers["content-type"], reply.read().decode())
    link.close()


def check(operation: Any, status: int, media_type: str, text: str) -> None:
    response = operation["responses"][str(status)]
    if "$ref" in response:
        response = DOCUMENT["components"]["responses"][response["$ref"].rpartition("/")[2]]
    media_type = media_type.partition(";")[0]
    answer = json.loads(text) if media_type == "application/json" else text
    jsonschema.validate(answer, with_components(response["content"][media_type]))


def with_components(content: Any) -> Any:
    return {**content["schema"], "components": DOCUMENT["components"]}
