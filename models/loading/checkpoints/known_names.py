"""The names in pickles that are known, each with a function of ours that builds what it stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .pickle_machine import Builder, to_dict, to_set
from .stored_tensors import OddTensor, Storage, StoredArray, StoredTensor, numpy_dtype, torch_dtype
from .stubs import PickleRefused, Stub, StubClass

_LEAST_COPIED_BYTES = 64 << 20


class KnownNames:
    """Builders for one file. What they copy is limited: a pickle may name one long list a million times."""

    def __init__(self, file_bytes: int, load_bytes: Callable[[bytes], object]) -> None:
        self._left = max(_LEAST_COPIED_BYTES, 2 * file_bytes)
        self._load_bytes = load_bytes

    def builders(self) -> Mapping[str, Builder]:
        """Return the builders by dotted name."""
        odd = {
            "_rebuild_qtensor": "quantised", "_rebuild_sparse_tensor": "sparse",
            "_rebuild_sparse_csr_tensor": "sparse", "_rebuild_nested_tensor": "nested",
            "_rebuild_meta_tensor_no_storage": "without numbers (on the device meta)",
            "_rebuild_wrapper_subclass": "of a class of its own",
        }  # fmt: skip
        return {
            **{f"torch._utils.{name}": _odd(kind) for name, kind in odd.items()},
            "torch._utils._rebuild_tensor": _tensor, "torch._utils._rebuild_tensor_v2": _tensor,
            "torch._utils._rebuild_tensor_v3": _tensor_of_bytes,
            "torch._utils._rebuild_parameter": _first, "torch._utils._rebuild_parameter_with_state": _first,
            "torch._utils._rebuild_device_tensor_from_numpy": _first, "torch._utils._rebuild_xla_tensor": _first,
            "torch._tensor._rebuild_from_type_v2": self._of_type, "torch._tensor._rebuild_from_type": self._of_type,
            "torch.Size": self._tuple, "torch.storage._load_from_bytes": self._nested,
            "collections.OrderedDict": self._dict, "collections.Counter": self._dict, "builtins.dict": self._dict,
            "collections.defaultdict": lambda _factory=None, content=(): self._dict(content),
            "collections.deque": lambda content=(), _most=None: self._list(content),
            "builtins.list": self._list, "builtins.tuple": self._tuple, "builtins.set": self._set,
            "builtins.frozenset": self._set, "builtins.getattr": _attribute, "builtins.complex": _complex,
            "builtins.bytearray": self._bytes, "_codecs.encode": self._bytes,
            "copyreg._reconstructor": _reconstruct, "copyreg.__newobj__": lambda cls, *args: _stub(cls, args),
            "numpy._core.multiarray._reconstruct": lambda *_: StoredArray(),
            "numpy._core.multiarray.scalar": _scalar, "numpy._core.numeric._frombuffer": _array,
        }  # fmt: skip

    def _charge(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise PickleRefused("its pickle copies far more than the file holds")

    def _list(self, content: Any = ()) -> list[object]:
        self._charge(8 * len(content))
        return list(content)

    def _tuple(self, content: Any = ()) -> tuple[object, ...]:
        return tuple(self._list(content))

    def _set(self, content: Any = ()) -> set[Any]:
        return to_set(self._list(content))

    def _dict(self, content: Any = ()) -> dict[Any, object]:
        self._charge(32 * len(content))
        return to_dict((key, value) for key, value in (content.items() if isinstance(content, dict) else content))

    def _bytes(self, content: Any = "", *_: object) -> bytes:
        """Encode text in latin-1, as pickles of protocol 2 keep bytes."""
        self._charge(len(content))
        return bytes(content) if isinstance(content, bytes | bytearray) else str(content).encode("latin1")

    def _nested(self, content: Any) -> object:
        """Read what `torch.save` wrote into a pickle: the storage of a tensor that pickle itself wrote."""
        self._charge(len(content))
        return self._load_bytes(bytes(content))

    def _of_type(self, function: object, _cls: object, args: Any, _state: object = None) -> object:
        """Build a tensor of a subclass, or one with attributes, as a plain one."""
        name = function.text if isinstance(function, StubClass) else ""
        builder = self.builders().get(name) if name.startswith("torch._utils._rebuild_") else None
        return OddTensor("of a class of its own") if builder is None else builder(*args)


def _odd(kind: str) -> Builder:
    return lambda *_: OddTensor(kind)


def _first(value: object, *_: object) -> object:
    return value


def _storage(value: object) -> Storage:
    if not isinstance(value, Storage):
        raise PickleRefused("it has a tensor without a storage")
    return value


def _tensor(storage: object, offset: Any, shape: Any, strides: Any, *more: object) -> object:
    metadata = more[2] if len(more) > 2 else None  # after requires_grad and hooks
    if isinstance(storage, OddTensor):
        return storage
    known = _storage(storage)
    if known.dtype is None:
        raise PickleRefused("it has a tensor of an unknown kind")
    return _with_bits(known, known.dtype, (offset, shape, strides), metadata)


def _tensor_of_bytes(storage: object, offset: Any, shape: Any, strides: Any, *more: object) -> object:
    _, _, dtype, metadata = (*more, None)[:4]
    return _with_bits(_storage(storage), torch_dtype(dtype), (offset, shape, strides), metadata)


def _with_bits(storage: Storage, dtype: str, place: tuple[Any, Any, Any], metadata: object) -> StoredTensor:
    bits = metadata if isinstance(metadata, dict) else {}
    offset, shape, strides = place
    return StoredTensor(
        storage, dtype, offset, tuple(shape), tuple(strides), bool(bits.get("conj")), bool(bits.get("neg"))
    )


def _attribute(owner: object, name: object) -> object:
    """Name a member of a class, as pickles write those of nested classes."""
    if not isinstance(name, str):
        raise PickleRefused("its pickle names a member by something else than text")
    if isinstance(owner, StubClass):
        return StubClass(owner.module, f"{owner.name}.{name}")
    return Stub(StubClass("builtins", "getattr"), (owner, name))


def _stub(cls: object, args: tuple[object, ...] = ()) -> Stub:
    return Stub(cls if isinstance(cls, StubClass) else StubClass("", "object"), args)


def _reconstruct(cls: object, base: object, content: object = None) -> Stub:
    """Make the stub of an instance that protocols 0 and 1 wrote; `content` is that of its plain base class."""
    stub = _stub(cls)
    match base:
        case StubClass(name="dict") if isinstance(content, dict):
            stub.entries = content
        case StubClass(name="list" | "set") if isinstance(content, list | set):
            stub.elements = list(content)
        case StubClass(name="object"):
            pass
        case _:
            stub.args = (content,)
    return stub


def _complex(real: object = 0.0, imaginary: object = 0.0) -> complex:
    if not (isinstance(real, int | float) and isinstance(imaginary, int | float)):
        raise PickleRefused("its pickle has a complex number of other than numbers")
    return complex(real, imaginary)


def _scalar(dtype: object, content: object = b"") -> object:
    """Build a number of numpy as Python's; text and objects stay a stub."""
    code = numpy_dtype(dtype) if isinstance(dtype, Stub) else ""
    if not code or not isinstance(content, bytes | bytearray):
        return Stub(StubClass("numpy", "generic"), (dtype,))
    (number,) = np.frombuffer(bytes(content), np.dtype(code)).tolist()
    return number


def _array(content: object, dtype: object, shape: Any, order: object) -> StoredArray:
    array = StoredArray()
    array.fill((1, tuple(shape), dtype, order == "F", content))
    return array
