"""TF Serving's Classify, Regress and MultiInference, in its messages and in its JSON.

The words of the errors are those of tensorflow/serving: classifier.cc, regressor.cc and
multi_inference.cc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....models.signature import Array
from ...wire.tfserving_json import dumps
from ...wire.tfserving_messages import Message, stock
from ..repository.body_decoders import SIGNATURE
from ..repository.served_version import Deadline, ServedVersion
from ..serving_error import Code, ServingError, invalid
from .example_batch import Example, ExampleList, class_outputs, classes_of, feeds_of, values_of, values_output

REQUESTS = {"Classify": "ClassificationRequest", "Regress": "RegressionRequest",
            "MultiInference": "MultiInferenceRequest"}  # fmt: skip
_METHODS = {"tensorflow/serving/classify": "Classify", "tensorflow/serving/regress": "Regress"}
_MOST_BYTES = 4 << 20  # of a message: parsed, empty examples and features take up to 40 times their bytes
_DTYPES = {"float_list": np.float32, "int64_list": np.int64, "bytes_list": object}


def check_length(data: bytes) -> None:
    """Refuse a message of examples that is too long to be parsed. Raises ServingError RESOURCE_EXHAUSTED."""
    if len(data) > _MOST_BYTES:
        text = f"a request of tf.Examples has at most {_MOST_BYTES} bytes, got {len(data)}"
        raise ServingError(Code.RESOURCE_EXHAUSTED, text)


def answer_message(model: ServedVersion, api: str, request: Message, deadline: Deadline, most_bytes: int) -> Message:
    """Return the response to a request of Classify, Regress or MultiInference.
    Raises ServingError and TransloadError."""
    tasks = _check_tasks(model, request.tasks) if api == "MultiInference" else {}
    batch = _examples_of(request.input)

    def answer(part: Message, result: Message, served: ServedVersion, method: str) -> None:
        count = len(batch.examples)
        check_answers(served, method, count)
        answers = served.predict(feeds_of(served.signature, batch, most_bytes), deadline)
        part.model_spec.name, part.model_spec.signature_name = served.name, served.signature_name
        part.model_spec.version.value = served.number
        if method == "Regress":
            _write_values(result, values_of(answers[values_output(served.signature)], count))
        else:
            _write_classes(result, *classes_of(served.signature, answers, count))

    messages = stock()
    if api != "MultiInference":
        served = _with_signature(model, request.model_spec.signature_name)
        reply = (messages.ClassificationResponse if api == "Classify" else messages.RegressionResponse)()
        answer(reply, reply.result, served, api)
        return reply
    reply = messages.MultiInferenceResponse()
    for name, method in tasks.items():
        part, served = reply.results.add(), model.signatures[name]
        result = part.classification_result if method == "Classify" else part.regression_result
        answer(part, result, served, method)
    return reply


def _write_values(result: Message, values: Array) -> None:
    for value in values.tolist():
        result.regressions.add(value=value)


def _write_classes(result: Message, labels: Sequence[Sequence[str]], scores: Array) -> None:
    for names, row in zip(labels, scores.tolist(), strict=True):
        add = result.classifications.add().classes.add
        for label, score in zip(names, row, strict=True):
            add(label=label, score=score)


def check_answers(model: ServedVersion, api: str, count: int) -> None:
    """Hold the outputs of a model against what answers Classify or Regress for `count` examples, before it is asked.
    Raises ServingError."""
    if api == "Regress":
        values_output(model.signature)
    else:
        class_outputs(model.signature, count)


def answer_json(model: ServedVersion, api: str, count: int, answers: Mapping[str, Array]) -> bytes:
    """Return the JSON document of a reply to Classify or Regress of `count` examples.
    Raises ServingError where an answer has no fitting shape."""
    if api == "Regress":
        values = values_of(answers[values_output(model.signature)], count)
        return dumps({"results": values}, [values])
    labels, scores = classes_of(model.signature, answers, count)
    rows = [[[*pair] for pair in zip(*row, strict=True)] for row in zip(labels, scores, strict=True)]
    return dumps({"results": rows}, [scores])


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
    example: dict[str, Array] = {}
    for name, feature in message.features.feature.items():
        kind = feature.WhichOneof("kind")
        if kind is not None:
            example[name] = np.array(getattr(feature, kind).value, _DTYPES[kind])
    return example
