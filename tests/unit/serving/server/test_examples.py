"""Classify, Regress and MultiInference of tf.Examples, over gRPC and REST."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from transload.models.signature import Signature, TensorSpec
from transload.serving.server.examples import example_json
from transload.serving.wire.tensor_proto import encode
from transload.serving.wire.tfserving_messages import stock

from .conftest import TWO, Served, serve

SERVICE = "tensorflow.serving.PredictionService"
VALUE = Signature((TensorSpec("x", "float32", ("batch", 1)),), (TensorSpec("y", "float32", ("batch", 1)),))
FREE = Signature((TensorSpec("x", "float32", ("batch", "n")),), (TensorSpec("y", "float32", ("batch", "n")),))


@pytest.fixture
def serving() -> Iterator[Callable[[Signature], Served]]:
    opened: list[Served] = []

    def start(signature: Signature) -> Served:
        opened.append(serve(signature))
        return opened[-1]

    yield start
    for served in opened:
        served.server.close()


def add_example(examples: Any, **features: Any) -> None:
    feature = examples.add().features.feature
    for name, values in features.items():
        if isinstance(values, bytes):
            feature[name].bytes_list.value.append(values)
        elif np.asarray(values).dtype.kind == "f":
            feature[name].float_list.value.extend(values)
        else:
            feature[name].int64_list.value.extend(values)


def request(kind: str, *rows: dict[str, Any], context: dict[str, Any] | None = None) -> Any:
    message = getattr(stock(), f"{kind}Request")()
    if hasattr(message, "model_spec"):
        message.model_spec.name = "m"
    examples = message.input.example_list if context is None else message.input.example_list_with_context
    examples.SetInParent()
    for row in rows:
        add_example(examples.examples, **row)
    for name, values in (context or {}).items():
        examples.context.features.feature[name].float_list.value.extend(values)
    return message


def call(served: Served, method: str, message: Any) -> Any:
    kind = {"Classify": "Classification", "Regress": "Regression"}.get(method, method)
    with grpc.insecure_channel(served.addresses["grpc"]) as channel:
        answer = channel.unary_unary(f"/{SERVICE}/{method}", None, getattr(stock(), f"{kind}Response").FromString)
        return answer(message.SerializeToString(), timeout=60)


def refusal(served: Served, method: str, message: Any) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call(served, method, message)
    return caught.value.code().name, caught.value.details()


def post(served: Served, verb: str, body: Any) -> tuple[int, Any]:
    link = http.client.HTTPConnection(served.addresses["rest"], timeout=60)
    link.request("POST", f"/v1/models/m:{verb}", body if isinstance(body, str) else json.dumps(body))
    reply = link.getresponse()
    document = json.loads(reply.read())
    link.close()
    return reply.status, document


def test_classify_gives_a_score_for_each_class(one: Served) -> None:
    reply = call(one, "Classify", request("Classification", {"x": [1.0, 2.5], "other": [7]}, {"x": [3.0, 4.0]}))
    rows = [[(item.label, item.score) for item in row.classes] for row in reply.result.classifications]
    assert rows == [[("0", 2.0), ("1", 5.0)], [("0", 6.0), ("1", 8.0)]]
    spec = reply.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("m", 1, "serving_default")
    assert one.session.runs == 1


def test_regress_gives_a_value_for_each_example(serving: Callable[[Signature], Served]) -> None:
    served = serving(VALUE)
    reply = call(served, "Regress", request("Regression", {"x": [1.5]}, {"x": [2]}))
    assert [item.value for item in reply.result.regressions] == [3.0, 4.0]
    assert post(served, "regress", {"examples": [{"x": 1.5}, {"x": [2]}]}) == (200, {"results": [3.0, 4.0]})


def test_a_feature_of_the_context_stands_in_for_one_that_lacks(one: Served) -> None:
    reply = call(one, "Classify", request("Classification", {}, {"x": [0.5, 0.0]}, context={"x": [1.0, 2.0]}))
    assert [row.classes[0].score for row in reply.result.classifications] == [2.0, 1.0]


@pytest.mark.parametrize(("method", "signature"), [("classify", None), ("regress", VALUE)])
def test_multi_inference_answers_one_task(
    method: str, signature: Signature | None, one: Served, serving: Callable[[Signature], Served]
) -> None:
    served = one if signature is None else serving(signature)
    message = request("MultiInference", {"x": [1.0] if signature else [1.0, 2.0]})
    assert refusal(served, "MultiInference", message)[0] == "INVALID_ARGUMENT"  # it has no task
    task = message.tasks.add(method_name=f"tensorflow/serving/{method}")
    task.model_spec.name = "m"
    (result,) = call(served, "MultiInference", message).results
    if method == "classify":
        assert [item.score for item in result.classification_result.classifications[0].classes] == [2.0, 4.0]
    else:
        assert [item.value for item in result.regression_result.regressions] == [2.0]
    message.tasks.add().CopyFrom(task)
    assert refusal(served, "MultiInference", message) == (
        "INVALID_ARGUMENT", "Duplicate evaluation of signature: serving_default",
    )  # fmt: skip
    message.tasks[1].model_spec.name = "n"
    assert refusal(served, "MultiInference", message)[1].endswith("must access the same model name.")
    del message.tasks[1]
    message.tasks[0].method_name = "tensorflow/serving/predict"
    assert refusal(served, "MultiInference", message) == (
        "UNIMPLEMENTED", "Unsupported signature method_name: tensorflow/serving/predict",
    )  # fmt: skip


@pytest.fixture
def several() -> Iterator[Served]:
    served = serve(
        Signature((TensorSpec("x", "float32", ("batch", 1)),), (TensorSpec("y", "float32", ("batch", 1)),)),
        {"also": VALUE, "pairs": TWO},
    )
    yield served
    served.server.close()


def test_tasks_of_several_signatures_are_answered_in_their_order(several: Served) -> None:
    message = request("MultiInference", {"x": [1.5]}, {"x": [2]})
    for name, method in (("also", "regress"), ("", "classify")):
        task = message.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name, task.model_spec.signature_name = "m", name
    values, scores = call(several, "MultiInference", message).results
    assert [item.value for item in values.regression_result.regressions] == [3.0, 4.0]
    assert [row.classes[0].score for row in scores.classification_result.classifications] == [3.0, 4.0]
    assert [part.model_spec.signature_name for part in (values, scores)] == ["also", "serving_default"]
    message.tasks[0].model_spec.signature_name = "none"
    assert refusal(several, "MultiInference", message) == (
        "INVALID_ARGUMENT", "Requested signature not found in model graph: none",
    )  # fmt: skip


def test_a_request_chooses_its_signature(several: Served) -> None:
    rows = {"signature_name": "pairs", "instances": [{"b": [1, 2], "a": 10}]}
    assert post(several, "predict", rows) == (200, {"predictions": [{"sum": [11.0, 12.0], "kept": 10}]})
    behind = {
        "instances": [{"b": [1, 2], "a": 10}] * 20_000,
        "signature_name": "pairs",
    }  # named at the end
    status, answer = post(several, "predict", behind)
    assert (status, len(answer["predictions"]), answer["predictions"][-1]["kept"]) == (200, 20_000, 10)
    for wrong in ("none", 5, None):
        assert post(several, "predict", {**rows, "signature_name": wrong})[0] == 400
    assert post(several, "predict", {"instances": [[1.5]]}) == (200, {"predictions": [[3.0]]})
    body = {"signature_name": "also", "examples": [{"x": 1.5}]}
    assert post(several, "regress", body) == (200, {"results": [3.0]})
    message = request("Regression", {"x": [1.5]})
    message.model_spec.signature_name = "also"
    assert call(several, "Regress", message).model_spec.signature_name == "also"
    predict = stock().PredictRequest()
    predict.model_spec.name, predict.model_spec.signature_name = "m", "pairs"
    encode(np.array([[1, 2]], np.float32), predict.inputs["b"])
    encode(np.array([10]), predict.inputs["a"])
    reply = call(several, "Predict", predict)
    assert (reply.model_spec.signature_name, sorted(reply.outputs)) == ("pairs", ["kept", "sum"])
    for name, other in (("none", "not found"), ("also", "input size does not match")):
        predict.model_spec.signature_name = name
        assert other in refusal(several, "Predict", predict)[1]


def test_rest_takes_examples_as_tf_serving_documents_them(one: Served) -> None:
    """The request forms of https://www.tensorflow.org/tfx/serving/api_rest: a context, and a value in place of a list
    of one; and integers in place of floats, which only we take."""
    body = {"signature_name": "serving_default", "context": {"x": [1, 2]}, "examples": [{}, {"x": [0, 0.5]}]}
    rows = [[["0", 2.0], ["1", 4.0]], [["0", 0.0], ["1", 1.0]]]
    assert post(one, "classify", body) == (200, {"results": rows})


MISSING = "Name: <unknown>, Feature: x (data type: float) is required but could not be found."


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (None, "Input is empty."),
        ({}, MISSING),
        ({"x": [1.0]}, "Number of float values != expected. Values size: 1 but output shape: [2]"),
        ({"x": b"ab"}, "Data types don't match. Data type: string but expected type: float"),
    ],
)
def test_examples_that_do_not_fit_are_refused(row: Any, words: str, one: Served) -> None:
    code, text = refusal(one, "Classify", request("Classification", *([] if row is None else [row])))
    assert code == "INVALID_ARGUMENT"
    assert words in text
    assert one.session.runs == 0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], "the document Is not object"),
        ({}, "key 'examples' is expected and was not found"),
        ({"examples": 1}, "Expecting 'examples' value to be an list/array"),
        ({"examples": []}, "'examples' value is an empty array"),
        ({"examples": [[1, 2]]}, "Example must be JSON object but got JSON Array"),
        ({"examples": [{"x": [1, "a"]}]}, "Unexpected element type in feature: x expecting type: bytes"),
        ({"examples": [{"x": [1, None]}]}, "Feature: x has element with unexpected JSON type: Null"),
        ({"examples": [{"x": [1, 2]}], "signature_name": "other"}, 'Serving signature name: "other" not found'),
        ({"examples": [{"x": [1, 2]}], "signature_name": 3}, "'signature_name' key must be a string value"),
        ('{"examples": [{"x": [1, 1e39]}]}', "Cannot convert JSON value: 1e+39 to float without loss of precision."),
        ({"examples": [{"x": [1, 2**63]}]}, "Feature: x has uint64 element. Only int64 is supported."),
        ({"examples": [{"x": [0.5, 10**400]}]}, "JSON Parse error: "),
        ({"examples": [{"x": {"b64": "YWI="}}]}, "Data type: string but expected type: float"),
        ("{", ""),
    ],
)
def test_documents_that_do_not_fit_are_refused(body: Any, words: str, one: Served) -> None:
    status, document = post(one, "classify", body)
    assert (status, list(document)) == (400, ["error"])
    assert words in document["error"]
    assert one.session.runs == 0


def test_models_that_cannot_be_classified_say_why(
    one: Served, two: Served, serving: Callable[[Signature], Served]
) -> None:
    rows = {"examples": [{"b": [1.0, 2.0], "a": [1]}]}
    status, document = post(two, "classify", rows)
    assert status == 400
    assert document["error"].startswith("Expected classification signature outputs to contain at least one of")
    assert post(two, "regress", rows) == (400, {"error": "Expected one output Tensor."})
    status, document = post(one, "regress", {"examples": [{"x": [1.0, 2.0]}]})
    assert (status, document["error"]) == (
        400, "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got [batch,2]",
    )  # fmt: skip
    status, document = post(serving(FREE), "classify", {"examples": [{"x": [1.0, 2.0]}]})
    assert status == 400
    assert "its sizes behind the batch are not all fixed" in document["error"]


def test_a_message_that_would_take_much_more_memory_than_it_brings_is_refused(one: Served) -> None:
    message = request("Classification")
    message.input.example_list.examples.add().features.feature["y"].bytes_list.value.append(bytes(5 << 20))
    assert refusal(one, "Classify", message)[0] == "RESOURCE_EXHAUSTED"
    body = {"examples": [1] * ((1 << 16) + 1)}  # counted before the first is read, which would be a 400
    assert post(one, "classify", body)[0] == 429


def test_features_that_are_no_inputs_are_checked_and_not_kept(one: Served) -> None:
    batch = example_json.read_document(
        {"examples": [{"x": [1, 2], "f": 1}], "context": {"g": 1}}, one.repository.find("m").signature
    )
    assert [list(batch.examples[0]), list(batch.context)] == [["x"], []]
    assert post(one, "classify", {"examples": [{"x": [1, 2], "f": None}]})[0] == 400


def test_a_boolean_is_the_integer_0_or_1_as_in_tf_serving(serving: Callable[[Signature], Served]) -> None:
    assert post(serving(VALUE), "regress", {"examples": [{"x": [True]}, {"x": False}]}) == (
        200,
        {"results": [2.0, 0.0]},
    )


def test_they_are_counted_as_tf_serving_counts_them(one: Served) -> None:
    call(one, "Classify", request("Classification", {"x": [1.0, 2.0]}))
    post(one, "classify", {"examples": [{"x": [1.0, 2.0]}]})
    page = one.repository.metrics.page().decode()
    for api, entrypoint in (("Classify", "GRPC"), ("classify", "REST")):
        assert f'request_latency_count{{model_name="m",API="{api}",entrypoint="{entrypoint}"}} 1' in page
    assert 'request_count{model_name="m",status="OK"} 2' in page
