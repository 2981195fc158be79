"""The formats that are known: ours, and those of packages by the entry point group `transload.formats`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ..extensible_table import ExtensibleTable, UnfitRow, check_entry, check_requires
from . import keras, onnx, pt2, saved_model, tflite, torchscript
from .format_spec import ENTRIES, FormatSpec


def _check_format(spec: FormatSpec, known: Mapping[str, FormatSpec]) -> None:
    """Raise UnfitRow where a format of a package cannot be one."""
    for suffix in spec.suffixes:
        if owner := next((row.name for row in known.values() if suffix in row.suffixes), ""):
            raise UnfitRow(f"files that end in {suffix} are of the format {owner}")
    if not spec.suffixes and not spec.marks:
        raise UnfitRow(f"{spec.name} has neither a suffix nor a file by which its folders are known")
    check_requires(spec.name, spec.requires)
    for field in ENTRIES:
        if entry := getattr(spec, field):
            check_entry(spec.name, entry)


FORMATS: ExtensibleTable[FormatSpec] = ExtensibleTable(
    "format", FormatSpec,
    (pt2.SPEC, torchscript.SPEC, onnx.SPEC, saved_model.SPEC, tflite.SPEC, keras.SPEC), _check_format,
)  # fmt: skip


class Format(str):
    """The name of a known format, one object for each: text becomes a Format once, at the edge.
    Raises ValueError where no format has that name."""

    __slots__ = ()
    _known: ClassVar[dict[str, Format]] = {}
    PT2: ClassVar[Format]
    TORCHSCRIPT: ClassVar[Format]
    ONNX: ClassVar[Format]
    SAVED_MODEL: ClassVar[Format]
    TFLITE: ClassVar[Format]
    KERAS: ClassVar[Format]

    def __new__(cls, name: str) -> Format:
        """Return the format of a name."""
        if name not in cls._known:
            if name not in FORMATS:
                raise ValueError(f"no format is called {name!r}; use one of {', '.join(FORMATS)}")
            cls._known[name] = super().__new__(cls, name)
        return cls._known[name]

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        """Return how records are checked that have a field of this type."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())

    @property
    def spec(self) -> FormatSpec:
        """What is known of it."""
        return FORMATS[self]


Format.PT2, Format.TORCHSCRIPT, Format.ONNX = Format("pt2"), Format("torchscript"), Format("onnx")
Format.SAVED_MODEL, Format.TFLITE, Format.KERAS = Format("saved-model"), Format("tflite"), Format("keras")


def formats() -> Iterator[Format]:
    """Yield every format, ours first."""
    return map(Format, FORMATS)
