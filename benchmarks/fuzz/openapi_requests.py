"""Requests that schemathesis makes from docs/openapi.json, valid and invalid, and its checks of the answers."""

from __future__ import annotations

import json
import re
import time
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from fuzzed_server import ANSWER_S, MODELS, Outcomes

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
_EXAMPLES = 50  # of one operation in one turn
_BODY_TURNS = 8  # of an operation that takes a body, in a round
_NOT_FINITE = re.compile("NaN|Infinity")


class Turn(NamedTuple):
    """Requests to one operation."""

    requests: Any  # a strategy of hypothesis
    kind: str  # "positive": as the document says; "negative"


def number_list(size: int, **limits: Any) -> dict[str, Any]:
    """Return the schema of a list of `size` values."""
    return {"type": "array", "minItems": size, "maxItems": size, "items": limits}


def tensor(name: str, datatype: str, size: int, **limits: Any) -> dict[str, Any]:
    """Return the schema of an input of one sample."""
    properties = {
        "name": {"const": name}, "datatype": {"const": datatype}, "shape": {"const": [1, size]},
        "data": number_list(size, **limits),
    }  # fmt: skip
    return {"type": "object", "required": list(properties), "properties": properties}


def for_models(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document for the two models that are served: their names, and tensors that fit or hardly do not."""
    numbers, ids, flags = {"type": "number"}, {"type": "integer", "minimum": -1, "maximum": 10}, {"type": "boolean"}
    components = json.loads(json.dumps(document["components"]))
    parameters, schemas = components["parameters"], components["schemas"]
    parameters["Name"]["schema"] = {"enum": [name for name, *_ in MODELS]}
    parameters["Version"]["schema"] = {"enum": ["1", "2"]}
    pairs = {"ids": number_list(4, **ids), "keep": number_list(4, **flags)}
    rows = {"type": "object", "required": ["ids", "keep"], "properties": pairs, "additionalProperties": False}
    columns = {**rows, "properties": {name: {"type": "array", "items": pairs[name]} for name in pairs}}
    predict = schemas["PredictRequest"]["properties"]
    predict["instances"]["items"] = {"anyOf": [number_list(8, **numbers), rows]}
    predict["inputs"]["anyOf"] = [{"type": "array", "items": number_list(8, **numbers)}, columns]
    schemas["InferRequest"]["properties"]["inputs"]["items"] = {
        "anyOf": [
            tensor("x", "FP32", 8, **numbers),
            tensor("ids", "INT64", 4, **ids),
            tensor("keep", "BOOL", 4, **flags),
        ]
    }
    schemas["InferOutput"]["properties"]["name"] = {"enum": ["output", "output_0", "output_1"]}
    schemas["Example"] = {"type": "object", "properties": {"x": number_list(8, **numbers)}, "required": ["x"]}
    return {**document, "components": components}


class OpenApiClient:
    """Asks a server what schemathesis makes of the document."""

    def __init__(self, address: str, seed: int, outcomes: Outcomes) -> None:
        import requests
        import schemathesis
        from schemathesis import GenerationMode, checks
        from schemathesis.core.failures import Failure, FailureGroup
        from schemathesis.specs.openapi import checks as openapi_checks

        document = json.loads(DOCUMENT.read_text())
        self._base = f"http://{address}"
        self._seed, self._outcomes = seed, outcomes
        self._session = requests.Session()
        self._failures = (FailureGroup, Failure)
        self._checks = [
            checks.not_a_server_error, openapi_checks.status_code_conformance,
            openapi_checks.content_type_conformance, openapi_checks.response_schema_conformance,
        ]  # fmt: skip
        self._turns = [
            turn
            for schema in (
                schemathesis.openapi.from_dict(for_models(document)),
                schemathesis.openapi.from_dict(document),
            )
            for path, item in document["paths"].items()
            for method, operation in item.items()
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
            for turn in [Turn(schema[path][method.upper()].as_strategy(generation_mode=mode), mode.value)]
            for _ in range(_BODY_TURNS if "requestBody" in operation else 1)
        ]

    def ask(self, count: int) -> None:
        """Send about `count` requests: all operations by turns, valid and invalid."""
        for turn in cycle(self._turns):
            if self._outcomes.requests >= count:
                return
            self._seed += 1
            self._take_turn(turn)

    def _take_turn(self, turn: Turn) -> None:
        from hypothesis import HealthCheck, Phase, given, seed, settings
        from hypothesis.errors import Unsatisfiable

        @seed(self._seed)
        @settings(
            max_examples=_EXAMPLES, database=None, deadline=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(turn.requests)
        def ask(case: Any) -> None:
            self._ask_case(case, turn.kind)

        try:
            ask()
        except Unsatisfiable:  # what takes nothing cannot be asked wrongly
            return

    def _ask_case(self, case: Any, kind: str) -> None:
        start = time.monotonic()
        try:
            response = case.call(base_url=self._base, session=self._session, timeout=ANSWER_S)
        except Exception as error:  # noqa: BLE001  (each is a request without an answer)
            self._outcomes.add(kind, type(error).__name__, time.monotonic() - start)
            self._outcomes.add_fault(f"no answer: {error!r}"[:300], describe(case))
            return
        self._outcomes.add(kind, str(response.status_code), time.monotonic() - start)
        # What is not finite is no JSON number, so that schemathesis cannot compare the answer with its schema.
        checks = self._checks[: -1 if _NOT_FINITE.search(response.text) else None]
        try:
            case.validate_response(response, checks=checks)
        except self._failures as error:
            text = f"{response.status_code} {response.text[:200]}: {error}"
            self._outcomes.add_fault(text[:600], describe(case))


def describe(case: Any) -> str:
    """Return a request as text, by which it can be repeated."""
    return f"{case.method} {case.formatted_path} {dict(case.headers or {})} {case.media_type} {case.body!r}"


def ask_openapi(address: str, seed: int, count: int) -> Outcomes:
    """Send `count` requests, in a process of its own."""
    outcomes = Outcomes()
    OpenApiClient(address, seed, outcomes).ask(count)
    return outcomes
