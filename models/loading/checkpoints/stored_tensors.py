"""Tensors of a checkpoint, as the file describes them: their numbers are read when they are asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .stubs import PickleRefused, Stub, StubClass

if TYPE_CHECKING:
    import torch

ELEMENT_BYTES: Mapping[str, int] = {  # of torch's dtypes
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex32": 4, "complex64": 8, "complex128": 16,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1, "uint16": 2, "uint32": 4, "uint64": 8,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
}  # fmt: skip
STORAGES: Mapping[str, str | None] = {  # torch's classes of storages; None: bytes, whose dtype the tensor says
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128", "LongStorage": "int64",
    "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
    "BoolStorage": "bool", "UntypedStorage": None,
}  # fmt: skip
QUANTISED: Mapping[str, int] = {  # element sizes of torch's quantised storages
    "QInt8Storage": 1, "QUInt8Storage": 1, "QInt32Storage": 4, "QUInt4x2Storage": 1, "QUInt2x4Storage": 1,
}  # fmt: skip
_MOST_AXES = 64
_MOST_NUMBERS = 1 << 48
_NUMPY_CODE = re.compile(r"[?bBhHiIlLqQefdFD]|[biufc](1|2|4|8|16)")
_SHARDED = frozenset(("ShardedTensor", "DTensor", "FlatParameter", "DistributedTensor"))


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """The numbers behind one or several tensors of a file."""

    dtype: str | None
    size_bytes: int
    read: Callable[[], bytearray]  # raises BadRequest where the file is not whole


@dataclass(frozen=True, slots=True, eq=False)
class StoredTensor:
    """A tensor as a view of a storage. Offset and strides are in elements, and lie within it."""

    storage: Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    conjugate: bool = False
    negative: bool = False

    def __post_init__(self) -> None:
        numbers = (self.offset, *self.shape, *self.strides)
        if not all(type(number) is int and 0 <= number < _MOST_NUMBERS for number in numbers):
            raise PickleRefused("it has a tensor of an impossible size")
        if len(self.shape) != len(self.strides) or len(self.shape) > _MOST_AXES or self.dtype not in ELEMENT_BYTES:
            raise PickleRefused("it has a tensor of an unknown kind")
        if math.prod(self.shape) >= _MOST_NUMBERS:
            raise PickleRefused("it has a tensor of an impossible size")
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        if 0 not in self.shape and (last + 1) * ELEMENT_BYTES[self.dtype] > self.storage.size_bytes:
            raise PickleRefused("it has a tensor that is larger than its storage")


@dataclass(slots=True, eq=False)
class StoredArray:
    """An array of numpy in a pickle."""

    dtype: str = ""
    shape: tuple[int, ...] = ()
    order: str = "C"
    content: bytes = b""

    def fill(self, state: object) -> None:
        """Take what `ndarray.__setstate__` takes: version, shape, dtype, order, bytes."""
        match state:
            case (_, tuple(shape), Stub() as dtype, bool(is_fortran), bytes() | bytearray() as content):
                self.shape, self.dtype = shape, numpy_dtype(dtype)
                self.order, self.content = ("F" if is_fortran else "C"), bytes(content)
                self.array()  # checks the size
            case _:
                self.dtype = ""  # of objects: it holds no numbers

    def array(self) -> np.ndarray[Any, Any]:
        """Return the array. Raises PickleRefused where it holds no numbers, or its size is another."""
        if not self.dtype or not all(type(size) is int and 0 <= size < _MOST_NUMBERS for size in self.shape):
            raise PickleRefused("it has an array that is not of numbers")
        values = np.frombuffer(self.content, np.dtype(self.dtype))
        if values.size != math.prod(self.shape):
            raise PickleRefused("it has an array of another size than its content")
        return values.reshape(self.shape, order="F" if self.order == "F" else "C")


@dataclass(frozen=True, slots=True, eq=False)
class OddTensor:
    """A tensor that is not plain numbers, and is not read: "sparse", "quantised", "a shard"."""

    kind: str


TensorRecord: TypeAlias = "StoredTensor | StoredArray | OddTensor"


def tensor_record(value: object) -> TensorRecord | None:
    """Return a value of a checkpoint as the tensor that it is, or None."""
    if isinstance(value, Stub) and value.cls.name.rpartition(".")[2] in _SHARDED:
        return OddTensor("a shard of a tensor")
    return value if isinstance(value, StoredTensor | StoredArray | OddTensor) else None


def numpy_dtype(dtype: Stub) -> str:
    """Return the numpy dtype that a stub of `numpy.dtype` describes, as "<f4"; empty where it is not of numbers."""
    code = dtype.args[0] if dtype.cls.text == "numpy.dtype" and dtype.args else None
    order = dtype.state[1] if isinstance(dtype.state, tuple) and len(dtype.state) > 1 else "<"
    if not isinstance(code, str) or not _NUMPY_CODE.fullmatch(code):
        return ""
    return np.dtype(code).newbyteorder(">" if order == ">" else "<").str


def torch_dtype(value: object) -> str:
    """Return the name of the torch dtype that a stub stands for. Raises PickleRefused."""
    name = value.name if isinstance(value, StubClass) and value.module == "torch" else ""
    if name not in ELEMENT_BYTES:
        raise PickleRefused("it has a tensor of an unknown kind")
    return name


def load_tensors(records: Mapping[str, TensorRecord], file_name: str) -> dict[str, torch.Tensor]:
    """Read tensors on the CPU. Those that share a storage share their memory.
    Raises PickleRefused where one is not plain numbers."""
    contents: dict[int, bytearray] = {}
    return {name: _load(record, contents, f"{name} in {file_name}") for name, record in records.items()}


def _load(record: TensorRecord, contents: dict[int, bytearray], place: str) -> torch.Tensor:
    import torch

    if isinstance(record, OddTensor):
        raise PickleRefused(f"{place} is {record.kind}")
    if isinstance(record, StoredArray):
        values = record.array()
        return torch.from_numpy(values.astype(values.dtype.newbyteorder("="), copy=True))
    storage, dtype = record.storage, getattr(torch, record.dtype)
    if 0 in record.shape:
        return torch.empty(record.shape, dtype=dtype)
    key = id(storage)
    if key not in contents:
        contents[key] = storage.read()
    count = len(contents[key]) // ELEMENT_BYTES[record.dtype]
    flat = torch.frombuffer(contents[key], dtype=dtype, count=count)
    tensor = flat.as_strided(record.shape, record.strides, record.offset)
    tensor = tensor.conj() if record.conjugate else tensor
    return -tensor if record.negative else tensor
