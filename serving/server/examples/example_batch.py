"""tf.Examples as a batch of a model's inputs, and its output as classes or values; no wire format is known here.

A model here has one signature of tensors. So the features of each example are read by the names of the inputs, as
tf.io.parse_example reads those of fixed length. The words of the errors are TensorFlow's and TF Serving's
(tensorflow: core/util/example_proto_fast_parsing.cc; tensorflow/serving: classifier.cc, regressor.cc).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ....models.signature import Array, Axis, Signature, TensorSpec, shape_text
from ..serving_error import Code, ServingError, invalid

Example: TypeAlias = Mapping[str, Array | None]  # values of each feature, float32 or int64; None stands for bytes


class ExampleList(NamedTuple):
    """The examples of a request. A feature that an example lacks is that of the context."""

    examples: Sequence[Example]
    context: Example


_MOST_SCORES = 1 << 20  # of one answer: each becomes a message with its label
_MOST_EXAMPLES = 1 << 16


def feeds_of(signature: Signature, batch: ExampleList, most_bytes: int) -> dict[str, Array]:
    """Return an array for each input, with one row per example; together they have at most `most_bytes`. Features that
    are no input are left out, as TensorFlow does. Raises ServingError."""
    examples = batch.examples
    if not examples:
        raise invalid("Input is empty.")
    check_count(len(examples))
    shapes = {spec.name: (len(examples), *_inner_shape(spec)) for spec in signature.inputs}
    if sum(math.prod(shapes[spec.name]) * np.dtype(spec.dtype).itemsize for spec in signature.inputs) > most_bytes:
        raise _too_large(f"the inputs of {len(examples)} examples are more than {most_bytes} bytes")
    feeds = {spec.name: np.empty(shapes[spec.name], spec.dtype) for spec in signature.inputs}
    for at, example in enumerate(examples):
        for spec in signature.inputs:
            features = example if spec.name in example else batch.context
            if spec.name not in features:
                kind = _kind(np.dtype(spec.dtype))
                text = f"Feature: {spec.name} (data type: {kind}) is required but could not be found."
                raise invalid(f"Name: <unknown>, {text}")
            row = feeds[spec.name][at : at + 1]
            row[...] = _values(features[spec.name], spec, at, row.size).reshape(row.shape)
    return feeds


def check_count(count: int) -> None:
    """Refuse more examples than a request may have. Raises ServingError RESOURCE_EXHAUSTED."""
    if count > _MOST_EXAMPLES:
        raise _too_large(f"a request has at most {_MOST_EXAMPLES} examples, got {count}")


def _inner_shape(spec: TensorSpec) -> tuple[int, ...]:
    """Return the shape of one example's part of an input. Raises ServingError FAILED_PRECONDITION."""
    inner = tuple([axis for axis in spec.shape[1:] if isinstance(axis, int)])
    if not spec.shape or len(inner) < len(spec.shape) - 1:
        text = f"input {spec} cannot be read from tf.Examples: its sizes behind the batch are not all fixed"
        raise ServingError(Code.FAILED_PRECONDITION, text)
    return inner


def _values(values: Array | None, spec: TensorSpec, at: int, count: int) -> Array:
    """Return the values of a feature in the dtype of its input. Integers are taken for floats, as JSON writes 1.0 as 1.
    Raises ServingError INVALID_ARGUMENT."""
    where = f"Name: <unknown>, Key: {spec.name}, Index: {at}."
    dtype = np.dtype(spec.dtype)
    if values is None or (_kind(values.dtype) != _kind(dtype) and dtype.kind != "f"):
        kind = "string" if values is None else _kind(values.dtype)
        raise invalid(f"{where}  Data types don't match. Data type: {kind} but expected type: {_kind(dtype)}")
    if len(values) != count:
        shape = shape_text(spec.shape[1:])
        text = f"Number of {_kind(dtype)} values != expected. Values size: {len(values)} but output shape: {shape}"
        raise invalid(f"{where}  {text}")
    with np.errstate(over="ignore"):
        converted = values.astype(dtype)
    lost = np.isfinite(values) != np.isfinite(converted) if dtype.kind == "f" else converted != values
    if lost.any():
        raise invalid(f"{where}  a value is not within {spec.dtype}")
    return converted


def _kind(dtype: np.dtype[np.generic]) -> str:
    return "float" if dtype.kind == "f" else "int64"


def scores_output(signature: Signature, count: int) -> str:
    """Return the name of the output that holds the scores of classes, for `count` examples.
    Raises ServingError where there is none."""
    outputs = {spec.name: spec for spec in signature.outputs}
    if len(outputs) > 2:
        raise invalid(f"Expected one or two output Tensors, found {len(outputs)}")
    if len(outputs) == 2 and "scores" not in outputs:
        raise ServingError(
            Code.FAILED_PRECONDITION,
            'Expected classification signature outputs to contain at least one of "classes" or "scores". '
            f"Signature was: {', '.join(outputs)}",
        )
    spec = outputs.get("scores", signature.outputs[0])
    _check_scores(spec.shape, np.dtype(spec.dtype), count)
    return spec.name


def scores_of(output: Array, count: int) -> Array:
    """Return the scores of `count` examples as float32[count, classes]. Raises ServingError."""
    _check_scores(output.shape, output.dtype, count)
    if len(output) != count:
        raise invalid(f"Expected scores output batch size of {count}. Got: {len(output)}")
    return output.astype(np.float32, copy=False)


def _check_scores(shape: Sequence[Axis], dtype: np.dtype[np.generic], count: int) -> None:
    if len(shape) != 2:
        raise invalid(f"Expected Tensor shape: [batch_size num_classes] but got {shape_text(shape)}")
    if dtype.kind != "f":
        raise invalid(f"Expected scores Tensor of DT_FLOAT. Got: DT_{dtype.name.upper()}")
    if isinstance(shape[1], int) and count * shape[1] > _MOST_SCORES:
        raise _too_large(f"{count} examples of {shape[1]} classes are more than {_MOST_SCORES} scores")


def values_output(signature: Signature) -> str:
    """Return the name of the output that holds one value per example. Raises ServingError where there is none."""
    if len(signature.outputs) != 1:
        raise invalid("Expected one output Tensor.")
    (spec,) = signature.outputs
    _check_values(spec.shape, np.dtype(spec.dtype))
    return spec.name


def values_of(output: Array, count: int) -> Array:
    """Return the values of `count` examples as float32[count]. Raises ServingError."""
    _check_values(output.shape, output.dtype)
    if len(output) != count or output.size != count:
        raise invalid(f"Input batch size did not match output batch size: {count} vs. {len(output)}")
    return output.reshape(count).astype(np.float32, copy=False)


def _check_values(shape: Sequence[Axis], dtype: np.dtype[np.generic]) -> None:
    if len(shape) != 1 and not (len(shape) == 2 and (shape[1] == 1 or isinstance(shape[1], str))):
        text = "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got"
        raise invalid(f"{text} {shape_text(shape)}")
    if dtype.kind != "f":
        raise invalid(f"Expected output Tensor of DT_FLOAT.  Got: DT_{dtype.name.upper()}")


def _too_large(text: str) -> ServingError:
    return ServingError(Code.RESOURCE_EXHAUSTED, text)
