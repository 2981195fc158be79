"""TF Serving's Classify, Regress and MultiInference, in its messages and in its JSON.

The words of the errors are those of tensorflow/serving: classifier.cc, regressor.cc, multi_inference.cc and
json_tensor.cc.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....models.signature import Array
from ...wire.tfserving_json import dumps, is_base64, loads
from ...wire.tfserving_messages import Message, stock
from ..repository.body_decoders import SIGNATURE, named_signature
from ..repository.served_version import Patience, ServedVersion
from ..serving_error import Code, ServingError, invalid
from .example_batch import (
    Example,
    ExampleList,
    check_count,
    feeds_of,
    scores_of,
    scores_output,
    values_of,
    values_output,
)

REQUESTS = {"Classify": "ClassificationRequest", "Regress": "RegressionRequest",
            "MultiInference": "MultiInferenceRequest"}  # fmt: skip
_METHODS = {"tensorflow/serving/classify": "Classify", "tensorflow/serving/regress": "Regress"}
_MOST_BYTES = 4 << 20  # of a message: parsed, empty examples and features take up to 40 times their bytes
_INT64 = np.iinfo(np.int64)


def check_length(data: bytes) -> None:
    """Refuse a message of examples that is too long to be parsed. Raises ServingError RESOURCE_EXHAUSTED."""
    if len(data) > _MOST_BYTES:
        text = f"a request of tf.Examples has at most {_MOST_BYTES} bytes, got {len(data)}"
        raise ServingError(Code.RESOURCE_EXHAUSTED, text)


def answer_message(model: ServedVersion, api: str, request: Message, patience: Patience, most_bytes: int) -> Message:
    """Return the response to a request of Classify, Regress or MultiInference.
    Raises ServingError and TransloadError."""
    tasks = _check_tasks(model, request.tasks) if api == "MultiInference" else {}
    batch = _examples_of(request.input)

    def ask(served: ServedVersion, method: str) -> Array:
        name = _output_name(served, method, len(batch.examples))
        answers = served.predict(feeds_of(served.signature, batch, most_bytes), patience)
        return _read_output(answers[name], method, len(batch.examples))

    messages = stock()
    if api != "MultiInference":
        served = _with_signature(model, request.model_spec.signature_name)
        reply = (messages.ClassificationResponse if api == "Classify" else messages.RegressionResponse)()
        _write_scores(reply, reply.result, served, ask(served, api))
        return reply
    reply = messages.MultiInferenceResponse()
    for name, method in tasks.items():
        part, served = reply.results.add(), model.signatures[name]
        result = part.classification_result if method == "Classify" else part.regression_result
        _write_scores(part, result, served, ask(served, method))
    return reply


def _write_scores(part: Message, result: Message, served: ServedVersion, scores: Array) -> None:
    """Write the scores of classes, or the values of a regression, into `result` of a reply or of its `part`."""
    part.model_spec.name, part.model_spec.signature_name = served.name, served.signature_name
    part.model_spec.version.value = served.number
    if scores.ndim == 1:
        for value in scores.tolist():
            result.regressions.add(value=value)
        return
    labels = [str(at) for at in range(scores.shape[1])]
    for row in scores.tolist():
        add = result.classifications.add().classes.add
        for label, score in zip(labels, row, strict=True):
            add(label=label, score=score)


@dataclass(frozen=True, slots=True)
class JsonExamples:
    """A request of Classify or Regress in JSON: what the model is asked for, and how its answer is told."""

    model: ServedVersion
    api: str
    count: int
    output: str  # that answers
    feeds: dict[str, Array]

    def to_json(self, answers: Mapping[str, Array]) -> bytes:
        """Return the JSON document of the reply. Raises ServingError where the answer has no fitting shape."""
        scores = _read_output(answers[self.output], self.api, self.count)
        if self.api == "Regress":
            return dumps({"results": scores}, [scores])
        labels = [str(at) for at in range(scores.shape[1])]
        return dumps({"results": [[[*pair] for pair in zip(labels, row, strict=True)] for row in scores]}, [scores])


def read_json(model: ServedVersion, api: str, body: bytes, most_bytes: int) -> JsonExamples:
    """Read the JSON document of a request of Classify or Regress. Raises ServingError, TransloadError."""
    document = loads(body)
    if not isinstance(document, dict):
        raise invalid("JSON Value: the document Is not object")
    model = _with_signature(model, named_signature(document))
    batch = _read_document(document, {spec.name for spec in model.signature.inputs})
    count = len(batch.examples)
    output = _output_name(model, api, count)
    return JsonExamples(model, api, count, output, dict(feeds_of(model.signature, batch, most_bytes)))


def _output_name(model: ServedVersion, method: str, count: int) -> str:
    """Return the output that answers Classify or Regress for `count` examples. Raises ServingError."""
    return values_output(model.signature) if method == "Regress" else scores_output(model.signature, count)


def _read_output(output: Array, method: str, count: int) -> Array:
    """Return float32[count, classes] of Classify, float32[count] of Regress. Raises ServingError."""
    return values_of(output, count) if method == "Regress" else scores_of(output, count)


def _with_signature(model: ServedVersion, name: str) -> ServedVersion:
    if (chosen := model.signatures.get(name or SIGNATURE)) is None:
        raise invalid(f"No signature was found with the name: {name}")
    return chosen


def _check_tasks(model: ServedVersion, tasks: Sequence[Message]) -> dict[str, str]:
    """Return the method of each task by the name of its signature. Raises ServingError."""
    methods: dict[str, str] = {}
    for task in tasks:
        if task.model_spec.name != tasks[0].model_spec.name:
            raise invalid("All ModelSpecs in a MultiInferenceRequest must access the same model name.")
        signature = task.model_spec.signature_name or SIGNATURE
        if signature not in model.signatures:
            raise invalid(f"Requested signature not found in model graph: {signature}")
        if signature in methods:
            raise invalid(f"Duplicate evaluation of signature: {signature}")
        if task.method_name not in _METHODS:
            raise ServingError(Code.UNIMPLEMENTED, f"Unsupported signature method_name: {task.method_name}")
        methods[signature] = _METHODS[task.method_name]
    return methods


def _examples_of(message: Message) -> ExampleList:
    """Return the examples of an Input, and their context."""
    if message.WhichOneof("kind") == "example_list_with_context":
        rows = message.example_list_with_context
        return ExampleList([_example(row) for row in rows.examples], _example(rows.context))
    return ExampleList([_example(row) for row in message.example_list.examples], {})


def _example(message: Message) -> Example:
    example: dict[str, Array | None] = {}
    for name, feature in message.features.feature.items():
        kind = feature.WhichOneof("kind")
        if kind == "bytes_list":
            example[name] = None
        elif kind is not None:
            dtype = np.float32 if kind == "float_list" else np.int64
            example[name] = np.array(getattr(feature, kind).value, dtype)
    return example


def _read_document(document: Any, inputs: Container[str]) -> ExampleList:
    """Return the examples of a JSON document, and their context: of the features those that are inputs.
    Raises ServingError INVALID_ARGUMENT, and RESOURCE_EXHAUSTED where there are too many examples."""
    context = _read_example(document["context"], inputs) if "context" in document else {}
    if "examples" not in document:
        raise invalid("JSON Value: the document When method is classify, key 'examples' is expected and was not found")
    rows = document["examples"]
    if not isinstance(rows, list):
        raise invalid("JSON Value: the document Expecting 'examples' value to be an list/array")
    if not rows:
        raise invalid("JSON Value: the document 'examples' value is an empty array")
    check_count(len(rows))
    return ExampleList([_read_example(row, inputs) for row in rows], context)


def _read_example(value: Any, inputs: Container[str]) -> Example:
    """Return the features of a JSON object. Others than `inputs` are checked, and not kept: there may be millions."""
    if not isinstance(value, dict):
        raise invalid(f"Example must be JSON object but got JSON {_json_type(value)}")
    example: dict[str, Array | None] = {}
    for name, content in value.items():
        values = content if isinstance(content, list) else [content]
        feature = _read_feature(name, values) if values else None
        if values and name in inputs:
            example[name] = feature
    return example


def _read_feature(name: str, values: Sequence[Any]) -> Array | None:
    """Return the values of a feature, None for bytes. A list with one float is one of floats."""
    kinds = {_feature_kind(name, value) for value in values}
    if "bytes" in kinds and len(kinds) > 1:
        raise invalid(f"Unexpected element type in feature: {name} expecting type: bytes")
    if "bytes" in kinds:
        return None
    if any(isinstance(value, int) and not _INT64.min <= value <= _INT64.max for value in values):
        raise invalid(f"Feature: {name} has uint64 element. Only int64 is supported.")
    if "float" not in kinds:
        return np.array(values, np.int64)
    with np.errstate(over="ignore"):
        array = np.array(values, np.float32)
    for at in np.flatnonzero(np.isinf(array) & np.isfinite(values)).tolist():
        raise invalid(f"Cannot convert JSON value: {values[at]} to float without loss of precision.")
    return array


def _feature_kind(name: str, value: Any) -> str:
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float"
    if isinstance(value, str) or is_base64(value):
        return "bytes"
    raise invalid(f"Feature: {name} has element with unexpected JSON type: {_json_type(value)}")


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)
    return {dict: "Object", list: "Array", str: "String", type(None): "Null"}.get(type(value), "Number")
