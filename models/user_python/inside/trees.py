"""Arguments and results of a model as JSON, with tensors by number: tuples, lists, dicts, records and constants."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

_CONSTANTS = (bool, int, float, str)


def encode_tree(value: object, tensors: list[Any]) -> Any:
    """Return JSON for a value, and append the tensors in it to `tensors`.
    An object that holds no tensors is named by its class. Where torch is not imported, tensors are numpy's arrays."""
    torch = sys.modules.get("torch")
    is_array = type(value).__module__ == "numpy" and hasattr(value, "shape")
    if is_array and torch is not None:
        value = torch.as_tensor(value)
    if is_array or (torch is not None and isinstance(value, torch.Tensor)):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if value is None or isinstance(value, _CONSTANTS):
        return {"constant": value if value is None else _plain(value)}
    if isinstance(value, (tuple, list)):
        return _encode_sequence(value, tensors)
    parts = _named_parts(value)
    if parts is None:
        return {"object": [type(value).__module__, type(value).__qualname__]}
    return {"dict": [[name, encode_tree(part, tensors)] for name, part in parts]}


def _named_parts(value: Any) -> list[tuple[str, Any]] | None:
    """Return the parts of a mapping or a dataclass; None where it is neither."""
    if isinstance(value, Mapping):
        return [(str(key), part) for key, part in value.items()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(part.name, getattr(value, part.name)) for part in dataclasses.fields(value)]
    return None


def _plain(value: Any) -> Any:
    """Return the number or text itself, for one of a subclass, such as numpy's float64."""
    return next(kind(value) for kind in _CONSTANTS if isinstance(value, kind))


def _encode_sequence(value: Any, tensors: list[Any]) -> Any:
    names = getattr(value, "_fields", None)
    parts = [encode_tree(part, tensors) for part in value]
    if names is not None:
        return {"dict": [[str(name), part] for name, part in zip(names, parts)]}
    return {"tuple" if isinstance(value, tuple) else "list": parts}


def decode_tree(document: Any, tensors: list[Any]) -> Any:
    """Reverse `encode_tree`; records and named tuples are dicts, and an object is an empty one of a class of its name.
    Raises ValueError, LookupError or TypeError where the document is none."""
    ((kind, content),) = document.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "constant":
        return content
    if kind == "dict":
        return {key: decode_tree(part, tensors) for key, part in content}
    if kind == "tuple":
        return tuple(decode_tree(part, tensors) for part in content)
    if kind == "list":
        return [decode_tree(part, tensors) for part in content]
    if kind == "object":
        module, name = content
        return type(str(name).rpartition(".")[2], (), {"__module__": str(module), "__qualname__": str(name)})()
    raise ValueError("no value is encoded so")
