"""tf.Examples as a batch of a model's inputs, and its output as classes or values; no wire format is known here.

A model whose only input is a string for each example gets them serialized, as TF Serving hands them over: it reads
them itself, with tf.io.parse_example. Of any other the features are read here by the names of the inputs, as
tf.io.parse_example reads those of fixed length. The words of the errors are TensorFlow's and TF Serving's
(tensorflow: core/util/example_proto_fast_parsing.cc; tensorflow/serving: classifier.cc, regressor.cc).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ....models.signature import STRINGS, Array, Axis, Signature, TensorSpec, shape_text
from ...wire.byte_strings import string_array
from ...wire.tfserving_messages import stock
from ..serving_error import Code, ServingError, invalid

Example: TypeAlias = Mapping[str, Array]  # values of each feature: float32, int64 or strings


class ExampleList(NamedTuple):
    """The examples of a request. A feature that an example lacks is that of the context."""

    examples: Sequence[Example]
    context: Example


_MOST_SCORES = 1 << 20  # of one answer: each becomes a message with its label
_MOST_EXAMPLES = 1 << 16
_LISTS = {"f": "float_list", "i": "int64_list", "O": "bytes_list"}  # of a feature, by the letters of numpy


def feeds_of(signature: Signature, batch: ExampleList, most_bytes: int) -> dict[str, Array]:
    """Return an array for each input, with one row per example; together they have at most `most_bytes`. Features that
    are no input are left out, as TensorFlow does. Raises ServingError."""
    examples = batch.examples
    if not examples:
        raise invalid("Input is empty.")
    check_count(len(examples))
    if takes_serialized(signature):
        return {signature.inputs[0].name: _serialized(batch, most_bytes)}
    shapes = {spec.name: (len(examples), *_inner_shape(spec)) for spec in signature.inputs}
    if sum(math.prod(shapes[spec.name]) * np.dtype(spec.dtype).itemsize for spec in signature.inputs) > most_bytes:
        raise too_large(f"the inputs of {len(examples)} examples are more than {most_bytes} bytes")
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


def takes_serialized(signature: Signature) -> bool:
    """Whether a model reads tf.Examples itself."""
    return len(signature.inputs) == 1 and signature.inputs[0].dtype == STRINGS and len(signature.inputs[0].shape) == 1


def _serialized(batch: ExampleList, most_bytes: int) -> Array:
    """Return each example, with the features of the context that it lacks, as bytes; together at most `most_bytes`.
    Raises ServingError RESOURCE_EXHAUSTED."""
    rows: list[bytes] = []
    for example in batch.examples:
        message = stock().Example()
        for name, values in {**batch.context, **example}.items():
            feature = message.features.feature[name]
            getattr(feature, _LISTS[values.dtype.kind]).value.extend(values.tolist())
        rows.append(message.SerializeToString())
        most_bytes -= len(rows[-1])
        if most_bytes < 0:
            raise too_large("the examples, each with the context, are more than a request may have")
    return string_array(rows, [len(rows)])


def check_count(count: int) -> None:
    """Refuse more examples than a request may have. Raises ServingError RESOURCE_EXHAUSTED."""
    if count > _MOST_EXAMPLES:
        raise too_large(f"a request has at most {_MOST_EXAMPLES} examples, got {count}")


def _inner_shape(spec: TensorSpec) -> tuple[int, ...]:
    """Return the shape of one example's part of an input. Raises ServingError FAILED_PRECONDITION."""
    inner = tuple([axis for axis in spec.shape[1:] if isinstance(axis, int)])
    if not spec.shape or len(inner) < len(spec.shape) - 1:
        text = f"input {spec} cannot be read from tf.Examples: its sizes behind the batch are not all fixed"
        raise ServingError(Code.FAILED_PRECONDITION, text)
    return inner


def _values(values: Array, spec: TensorSpec, at: int, count: int) -> Array:
    """Return the values of a feature in the dtype of its input. Integers are taken for floats, as JSON writes 1.0 as 1.
    Raises ServingError INVALID_ARGUMENT."""
    where = f"Name: <unknown>, Key: {spec.name}, Index: {at}."
    dtype = np.dtype(spec.dtype)
    kind, wanted = _kind(values.dtype), _kind(dtype)
    if kind != wanted and (wanted != "float" or kind == "string"):
        raise invalid(f"{where}  Data types don't match. Data type: {kind} but expected type: {wanted}")
    if len(values) != count:
        shape = shape_text(spec.shape[1:])
        text = f"Number of {_kind(dtype)} values != expected. Values size: {len(values)} but output shape: {shape}"
        raise invalid(f"{where}  {text}")
    if kind == "string":
        return values
    with np.errstate(over="ignore"):
        converted = values.astype(dtype)
    lost = np.isfinite(values) != np.isfinite(converted) if dtype.kind == "f" else converted != values
    if lost.any():
        raise invalid(f"{where}  a value is not within {spec.dtype}")
    return converted


def _kind(dtype: np.dtype[np.generic]) -> str:
    return {"f": "float", "O": "string"}.get(dtype.kind, "int64")


class ClassOutputs(NamedTuple):
    """The names of the outputs that classify: one of both at least."""

    scores: str | None
    labels: str | None  # None: the columns' numbers are the labels


def class_outputs(signature: Signature, count: int) -> ClassOutputs:
    """Return the outputs that hold the scores of classes and their labels, for `count` examples.
    Raises ServingError where there is none."""
    outputs = {spec.name: spec for spec in signature.outputs}
    if len(outputs) > 2:
        raise invalid(f"Expected one or two output Tensors, found {len(outputs)}")
    labels = "classes" if "classes" in outputs and outputs["classes"].dtype == STRINGS else None
    scores = "scores" if "scores" in outputs else None
    if scores is None and labels is None:
        if len(outputs) == 2:
            raise ServingError(
                Code.FAILED_PRECONDITION,
                'Expected classification signature outputs to contain at least one of "classes" or "scores". '
                f"Signature was: {', '.join(outputs)}",
            )
        scores = signature.outputs[0].name
    for name, kind in ((scores, "scores"), (labels, "classes")):
        if name is not None:
            _check_classes(outputs[name].shape, np.dtype(outputs[name].dtype), count, kind)
    return ClassOutputs(scores, labels)


def classes_of(signature: Signature, answers: Mapping[str, Array], count: int) -> tuple[Sequence[Sequence[str]], Array]:
    """Return the labels of the classes of each example, and float32[count, classes], their scores: 0 where the model
    gives none. Raises ServingError."""
    outputs = class_outputs(signature, count)
    tables = [None if name is None else answers[name] for name in outputs]
    for kind, table in zip(("scores", "classes"), tables, strict=True):
        if table is not None:
            _check_classes(table.shape, table.dtype, count, kind)
            if len(table) != count:
                raise invalid(f"Expected {kind} output batch size of {count}. Got: {len(table)}")
    scores, names = tables
    if names is not None:
        scores = np.zeros([*names.shape], np.float32) if scores is None else scores
        if names.shape != scores.shape:
            sizes = f"{names.shape[1]} vs. {scores.shape[1]}"
            raise invalid(f"Tensors class and score should match in dim_size(1). Got {sizes}")
        labels = [[name.decode(errors="replace") for name in row] for row in names]
    elif scores is not None:  # one of both is there
        labels = [[*map(str, range(scores.shape[1]))]] * count
    return labels, np.asarray(scores, np.float32)


def _check_classes(shape: Sequence[Axis], dtype: np.dtype[np.generic], count: int, kind: str) -> None:
    if len(shape) != 2:
        raise invalid(f"Expected Tensor shape: [batch_size num_classes] but got {shape_text(shape)}")
    if kind == "scores" and dtype.kind != "f":
        raise invalid(f"Expected scores Tensor of DT_FLOAT. Got: DT_{dtype.name.upper()}")
    if isinstance(shape[1], int) and count * shape[1] > _MOST_SCORES:
        raise too_large(f"{count} examples of {shape[1]} classes are more than {_MOST_SCORES} scores")


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


def too_large(text: str) -> ServingError:
    """Return the error of a request that would take more than one may."""
    return ServingError(Code.RESOURCE_EXHAUSTED, text)
