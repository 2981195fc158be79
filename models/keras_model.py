"""Load a model of Keras 3 and call it with named tensors, for converters and for the runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from .errors import BadRequest
from .signature import BATCH, Axis, Signature, TensorSpec, served_dtype

KerasModel: TypeAlias = Any  # a keras.Model: Keras 3 ships no types


class _KerasTensor(Protocol):  # a symbolic input or output
    name: str
    shape: Sequence[int | None]
    dtype: object


_Placed: TypeAlias = tuple[tuple[object, ...], _KerasTensor]  # a tensor at its place in a nested structure


def load_keras(path: Path) -> KerasModel:
    """Load the model in a .keras file. Raises what Keras raises.
    Keras's safe mode is on: no Python code from the file is run."""
    import keras

    return keras.saving.load_model(path, compile=False, safe_mode=True)


def signature_of_keras(model: KerasModel, path: Path) -> Signature:
    """Return the signature of a Keras model.

    Inputs have the names of the Input layers. Outputs have the keys of a dict that the model returns, else the names of
    the layers that made them. The first axis is the batch where it is dynamic, others are named after their tensor.
    Raises BadRequest where an input or output is nothing that the formats carry."""
    placed_inputs, placed_outputs = _structures(model, path)
    for _, tensor in placed_inputs:
        dense = not (getattr(tensor, "sparse", False) or getattr(tensor, "ragged", False))
        _require_dense(f"{path}: {_clean(tensor.name)}", dense)
    inputs = [_spec(path, _clean(tensor.name), tensor) for _, tensor in placed_inputs]
    names = _output_names(model, placed_outputs)
    outputs = [_spec(path, name, tensor) for name, (_, tensor) in zip(names, placed_outputs, strict=True)]
    try:
        return Signature(tuple(inputs), tuple(outputs))
    except ValueError as error:
        raise BadRequest(f"{path}: {error}", fix="give every Input a name of its own") from error


def function_of_keras(model: KerasModel, signature: Signature) -> Callable[..., dict[str, Any]]:
    """Return a function that takes tensors by position, in the signature's order, and returns tensors by name."""
    import keras

    sequential = isinstance(model, keras.Sequential)

    def call(*tensors: Any) -> dict[str, Any]:
        inputs = tensors[0] if sequential else keras.tree.pack_sequence_as(model.input, list(tensors))
        values = keras.tree.flatten(model(inputs, training=False))
        outputs = {spec.name: value for spec, value in zip(signature.outputs, values, strict=True)}
        for name, value in outputs.items():
            _require_dense(f"the model's output {name}", not hasattr(value, "dense_shape"))
        return outputs

    return call


def _structures(model: KerasModel, path: Path) -> tuple[list[_Placed], list[_Placed]]:
    """Return inputs and outputs with their places in the nested arguments and results, in Keras's own order."""
    import keras

    inputs = getattr(model, "inputs", None)  # a Sequential that has none raises AttributeError
    if inputs and isinstance(model, keras.Sequential):
        return [((), inputs[0])], [((), model.outputs[0])]
    if inputs:
        placed: list[list[_Placed]] = [list(keras.tree.flatten_with_path(side)) for side in (model.input, model.output)]
        return placed[0], placed[1]
    raise BadRequest(
        f"{path} does not say what its model takes", fix="begin the model with keras.Input(shape), and save it again"
    )


def _output_names(model: KerasModel, outputs: Sequence[_Placed]) -> list[str]:
    """Return keys where the model returns a dict; else layer names, numbered where one layer made several outputs."""
    if all(any(isinstance(part, str) for part in place) for place, _ in outputs):
        return [".".join(map(str, place)) for place, _ in outputs]
    names = list(getattr(model, "output_names", None) or [model.layers[-1].name])
    seen: Counter[str] = Counter()
    distinct = []
    for name in map(_clean, names):
        distinct.append(f"{name}_{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return distinct


def _clean(name: str) -> str:
    """Replace blanks, which signatures and command lines do not take."""
    return "_".join(name.split())


def _require_dense(name: str, dense: bool) -> None:
    """Refuse a sparse or ragged tensor.
    Outputs are checked at a call: Keras 3.15 declares `x * 2` sparse, and sparse outputs dense."""
    if not dense:
        raise BadRequest(f"{name} is a sparse or ragged tensor", fix="save a model of dense tensors")


def _spec(path: Path, name: str, tensor: _KerasTensor) -> TensorSpec:
    shape = tuple(_axis(name, at, size) for at, size in enumerate(tensor.shape))
    try:
        return TensorSpec(name, served_dtype(str(tensor.dtype)), shape)
    except ValueError as error:
        raise BadRequest(
            f"{path}: {name} is {tensor.dtype}, which the formats do not carry", fix="save a model of numbers"
        ) from error


def _axis(name: str, at: int, size: int | None) -> Axis:
    if size is not None:
        return size
    return BATCH if at == 0 else f"{name}_{at}"
