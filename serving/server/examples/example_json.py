"""The examples of a request of Classify or Regress in TF Serving's JSON.

The words of the errors are those of tensorflow/serving: json_tensor.cc.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from ....models.signature import Array, Signature
from ...wire.byte_strings import is_base64, json_string, string_array
from ..serving_error import invalid
from .example_batch import Example, ExampleList, check_count, takes_serialized, too_large

_MOST_FEATURES = 1 << 18  # that are kept of one request
_INT64 = np.iinfo(np.int64)


def read_document(document: Mapping[str, Any], signature: Signature) -> ExampleList:
    """Return the examples of a JSON document, and their context: of the features those that the model may read.
    Raises ServingError INVALID_ARGUMENT, and RESOURCE_EXHAUSTED where there are too many examples."""
    inputs = None if takes_serialized(signature) else {spec.name for spec in signature.inputs}
    context = _read_example(document["context"], inputs) if "context" in document else {}
    if "examples" not in document:
        raise invalid("JSON Value: the document When method is classify, key 'examples' is expected and was not found")
    rows = document["examples"]
    if not isinstance(rows, list):
        raise invalid("JSON Value: the document Expecting 'examples' value to be an list/array")
    if not rows:
        raise invalid("JSON Value: the document 'examples' value is an empty array")
    check_count(len(rows))
    examples: list[Example] = []
    left = _MOST_FEATURES - len(context)
    for row in rows:
        examples.append(_read_example(row, inputs))
        left -= len(examples[-1])
        if left < 0:
            raise too_large(f"a request has at most {_MOST_FEATURES} features")
    return ExampleList(examples, context)


def _read_example(value: Any, inputs: Container[str] | None) -> Example:
    """Return the features of a JSON object. Others than `inputs` are checked, and not kept: there may be millions.
    Where `inputs` is None, the model reads them itself."""
    if not isinstance(value, dict):
        raise invalid(f"Example must be JSON object but got JSON {_json_type(value)}")
    example: dict[str, Array] = {}
    for name, content in value.items():
        values = content if isinstance(content, list) else [content]
        if values:
            feature = _read_feature(name, values)
            if inputs is None or name in inputs:
                example[name] = feature
    return example


def _read_feature(name: str, values: Sequence[Any]) -> Array:
    """Return the values of a feature: float32, int64 or strings. A list with one float is one of floats."""
    kinds = {_feature_kind(name, value) for value in values}
    if "bytes" in kinds and len(kinds) > 1:
        raise invalid(f"Unexpected element type in feature: {name} expecting type: bytes")
    if "bytes" in kinds:
        return string_array([json_string(value) or b"" for value in values], [len(values)])
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
