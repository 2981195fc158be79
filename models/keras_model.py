"""A model of Keras 3 as a function of named tensors: how converters and the runtime alike load and call it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .errors import BadRequest
from .signature import Axis, Signature, TensorSpec, served_dtype

BATCH = "batch"


def load_keras(path: Path) -> Any:
    """The model in a .keras file. Keras's safe mode is on: no Python code out of the file is run. Raises what Keras
    raises."""
    import keras

    return keras.saving.load_model(path, compile=False, safe_mode=True)


def signature_of_keras(model: Any, path: Path) -> Signature:
    """Inputs by the names of the Input layers; outputs by the keys of a dict that the model gives, else by the names of
    the layers that made them. The first axis is the batch where it is dynamic, others are named after their tensor.

    Raises BadRequest where an input or output is nothing that the formats carry.
    """
    given, made = _structures(model, path)
    for _, each in given:
        dense = not (getattr(each, "sparse", False) or getattr(each, "ragged", False))
        _require_dense(f"{path}: {_clean(each.name)}", dense)
    inputs = [_spec(path, _clean(each.name), each) for _, each in given]
    names = _output_names(model, made)
    outputs = [_spec(path, name, each) for name, (_, each) in zip(names, made, strict=True)]
    try:
        return Signature(tuple(inputs), tuple(outputs))
    except ValueError as error:
        raise BadRequest(f"{path}: {error}", fix="give every Input a name of its own") from error


def function_of_keras(model: Any, signature: Signature) -> Callable[..., dict[str, Any]]:
    """A function that takes tensors by position, in the signature's order, and gives tensors by name."""
    import keras

    sequential = isinstance(model, keras.Sequential)

    def call(*tensors: Any) -> dict[str, Any]:
        given = tensors[0] if sequential else keras.tree.pack_sequence_as(model.input, list(tensors))
        found = keras.tree.flatten(model(given, training=False))
        made = {spec.name: value for spec, value in zip(signature.outputs, found, strict=True)}
        for name, value in made.items():
            _require_dense(f"the model's output {name}", not hasattr(value, "dense_shape"))
        return made

    return call


def _structures(model: Any, path: Path) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
    """Inputs and outputs with their places in what the model takes and gives, in Keras's own order."""
    import keras

    inputs = getattr(model, "inputs", None)  # a Sequential that has none raises AttributeError
    if inputs and isinstance(model, keras.Sequential):
        return [((), inputs[0])], [((), model.outputs[0])]
    if inputs:
        found: list[list[tuple[Any, Any]]] = [
            list(keras.tree.flatten_with_path(side)) for side in (model.input, model.output)
        ]
        return found[0], found[1]
    raise BadRequest(
        f"{path} does not say what its model takes", fix="begin the model with keras.Input(shape), and save it again"
    )


def _output_names(model: Any, made: Sequence[tuple[Any, Any]]) -> list[str]:
    """Keys where the model gives a dict; else the layers' names, told apart where one layer made several."""
    if all(any(isinstance(part, str) for part in place) for place, _ in made):
        return [".".join(map(str, place)) for place, _ in made]
    names = list(getattr(model, "output_names", None) or [model.layers[-1].name])
    seen: Counter[str] = Counter()
    told_apart = []
    for name in map(_clean, names):
        told_apart.append(f"{name}_{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return told_apart


def _clean(name: str) -> str:
    """Signatures and command lines take no blanks."""
    return "_".join(name.split())


def _require_dense(what: str, dense: bool) -> None:
    """Outputs are asked when they are there: Keras 3.15 declares `x * 2` sparse, and what is sparse dense."""
    if not dense:
        raise BadRequest(f"{what} is a sparse or ragged tensor", fix="save a model of dense tensors")


def _spec(path: Path, name: str, tensor: Any) -> TensorSpec:
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
