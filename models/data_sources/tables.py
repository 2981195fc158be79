"""Tables in CSV and Parquet as samples: a row is a sample. They are read in batches of rows, by pyarrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BadRequest
from ..library_messages import first_line
from ..signature import BATCH, Array, TensorSpec
from .item_shapes import cast_rows, item_specs, reshape_rows
from .sample_writer import Chunk
from .source_options import TableOptions

_LABELS = ("label", "labels")
_ROWS = 8192  # of a Parquet file that are read at a time
_BLOCK_BYTES = 1 << 20  # of a text file
_SHOWN = 8  # columns that a sentence lists


@dataclass(frozen=True)
class _Columns:
    """The columns of each input, and of the labels."""

    inputs: Mapping[str, Sequence[str]]
    label: str | None
    left_out: Sequence[str] = ()  # that hold no numbers

    @property
    def names(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys([*(name for names in self.inputs.values() for name in names), *self._labels]))

    @property
    def _labels(self) -> list[str]:
        return [self.label] if self.label else []


def read_table(path: Path, inputs: Sequence[TensorSpec], options: TableOptions) -> Iterator[Chunk]:
    """Yield the samples of a table, batch by batch.

    An input takes the column that is named like it: a number, or a list of numbers in Parquet. One input that has no
    such column takes the numeric columns that are left, or those of `options`, in order. Labels that are text are
    numbered in alphabetical order.
    Raises BadRequest where a column is missing, a value is missing, or numbers do not fit."""
    table = _open(path, options)
    columns = _assign(table, item_specs(inputs), options)
    classes = table.classes(columns.label) if columns.label and not table.is_number(columns.label) else None
    start = 0
    for batch in table.batches(columns, inputs):
        for name in columns.names:
            _refuse_missing(path, name, batch.column(name), start)
        rows = {item.name: _rows_of(batch, columns, item, path) for item in item_specs(inputs)}
        yield rows, _labels_of(batch, columns.label, classes)
        start += batch.num_rows


def describe_table(
    path: Path, inputs: Sequence[TensorSpec], options: TableOptions
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the names of the labels by their numbers, where they are text, and a sentence on each input's columns."""
    table = _open(path, options)
    columns = _assign(table, item_specs(inputs), options)
    is_text = columns.label is not None and not table.is_number(columns.label)
    names = table.classes(columns.label) if columns.label and is_text else ()
    sentences = [f"{name} takes the columns {', '.join(held)}, in this order" for name, held in columns.inputs.items()]
    return {str(number): str(name) for number, name in enumerate(names)}, tuple(sentences)


def table_columns(
    path: Path, inputs: Sequence[TensorSpec], options: TableOptions
) -> tuple[Mapping[str, Sequence[str]], str | None, Sequence[str]]:
    """Return the columns of each input, of the labels, and those of neither."""
    table = _open(path, options)
    columns = _assign(table, item_specs(inputs), options)
    return columns.inputs, columns.label, [name for name in table.schema.names if name not in columns.names]


def column_specs(path: Path, parameters: Mapping[str, bool], options: TableOptions) -> tuple[TensorSpec, ...]:
    """Return the inputs that the columns of a table fill. `parameters`: whether each is required; others are inputs
    where a column has their name. Raises BadRequest where an input has no columns."""
    table = _open(path, options)
    there = {*table.schema.names} - {options.label, *_LABELS}
    names = [name for name, required in parameters.items() if required or name in there]
    columns = _assign(table, [TensorSpec(name, "float32", ()) for name in names], options).inputs
    return tuple(table.spec(name, columns[name]) for name in names)


class _TableReader:
    """A table that is read several times, each time from its start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _readable(path):
            self.schema = self._read_schema()
            names = self.schema.names
        if twice := next((name for name, count in Counter(names).items() if count > 1), None):
            raise BadRequest(f"{path} names the column {twice} twice", fix="give every column a name of its own")

    def is_number(self, name: str) -> bool:
        """Return whether a column holds numbers, or lists of them."""
        from pyarrow import types

        kind = self.schema.field(name).type
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            kind = kind.value_type
        numbers = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        return bool(numbers or types.is_null(kind))  # a column without any value is read, and refused by its row

    def is_list(self, name: str) -> bool:
        """Return whether a column holds a list of numbers in each row."""
        from pyarrow import types

        kind = self.schema.field(name).type
        return bool(types.is_nested(kind))

    def spec(self, name: str, columns: Sequence[str]) -> TensorSpec:
        """Return the input that takes these columns, floats as float32: all of them, or a value or list of its name."""
        kinds = [self.schema.field(column).type for column in columns]
        sizes = () if list(columns) == [name] else (len(columns),)
        if self.is_list(columns[0]):
            kinds = [kinds[0].value_type]
            first = next(self._read({columns[0]: None}), None)
            sizes = (len(first.column(0)[0].as_py() or ()),) if first and first.num_rows else ()
        dtype = np.result_type(*(kind.to_pandas_dtype() for kind in kinds))
        return TensorSpec(name, str(dtype) if dtype.kind in "iub" else "float32", (BATCH, *sizes))

    def classes(self, label: str) -> Array:
        """Return the different texts of the labels in alphabetical order."""
        seen: set[str] = set()
        for batch in self._read({label: "string"}):
            seen.update(map(str, batch.column(label).unique().to_pylist()))
        return np.array(sorted(seen))

    def batches(self, columns: _Columns, inputs: Sequence[TensorSpec]) -> Iterator[Any]:
        """Yield record batches of the columns; text is read as the kind of number that an input takes."""
        kinds: dict[str, str | None] = {columns.label: None} if columns.label else {}
        for spec in inputs:
            kind = {"i": "int64", "u": "uint64", "b": "bool_"}.get(np.dtype(spec.dtype).kind, "float64")
            kinds |= dict.fromkeys(columns.inputs[spec.name], kind)
        if columns.label and not self.is_number(columns.label):
            kinds[columns.label] = "string"
        return self._read(kinds)

    def _read_schema(self) -> Any:
        raise NotImplementedError

    def _read(self, kinds: Mapping[str, str | None]) -> Iterator[Any]:
        """Yield record batches of these columns. A Parquet file has types of its own, and no kinds are needed."""
        raise NotImplementedError


class _Parquet(_TableReader):
    def _read_schema(self) -> Any:
        from pyarrow import parquet

        return parquet.read_schema(self.path)

    def _read(self, kinds: Mapping[str, str | None]) -> Iterator[Any]:
        from pyarrow import parquet

        with _readable(self.path), parquet.ParquetFile(self.path) as file:
            yield from file.iter_batches(batch_size=_ROWS, columns=list(kinds), use_threads=False)


class _Text(_TableReader):
    def __init__(self, path: Path, sep: str) -> None:
        self._sep = sep
        super().__init__(path)

    def _read_schema(self) -> Any:
        with self._open({}) as reader:
            return reader.schema

    def _read(self, kinds: Mapping[str, str | None]) -> Iterator[Any]:
        with _readable(self.path), self._open(kinds) as reader:
            yield from reader

    def _open(self, kinds: Mapping[str, str | None]) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        wanted = {name: getattr(pa, kind)() for name, kind in kinds.items() if kind}
        return csv.open_csv(
            self.path,
            read_options=csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=csv.ParseOptions(delimiter=self._sep),
            convert_options=csv.ConvertOptions(
                include_columns=list(kinds),
                column_types=wanted,
                strings_can_be_null=True,
                null_values=[text for text in csv.ConvertOptions().null_values if not text.lower().endswith("nan")],
            ),
        )


def _open(path: Path, options: TableOptions) -> _TableReader:
    if path.suffix.lower() == ".parquet":
        if options.sep:
            raise BadRequest(f"{path} is no text, and has no separator", fix="leave sep out")
        return _Parquet(path)
    return _Text(path, options.sep or ("\t" if path.suffix.lower() == ".tsv" else ","))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn an error of pyarrow into a sentence."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, UnicodeDecodeError) as error:  # pyarrow has all three for content that is broken
        if isinstance(error, OSError) and error.errno:
            raise  # of the disk
        why = first_line(error).removeprefix("CSV parse error: ").removeprefix("CSV conversion error: ")
        raise BadRequest(
            f"{path} cannot be read as a table: {why}", fix="mend that place; docs/data.md has the form"
        ) from error


def _assign(table: _TableReader, items: Sequence[TensorSpec], options: TableOptions) -> _Columns:
    names, inputs = table.schema.names, [item.name for item in items]
    for name in (*([options.label] if options.label else []), *options.columns):
        _require(table.path, name, names)
    label = options.label or next((name for name in _LABELS if name in names and name not in inputs), None)
    by_name: dict[str, Sequence[str]] = {name: (name,) for name in inputs if name in names and name != label}
    rest = [name for name in inputs if name not in by_name]
    if len(rest) > 1 or (options.columns and not rest):
        raise BadRequest(
            f"{table.path} has no column for {' and '.join(rest)}; it has {_list(names)}" if rest else
            "every input has a column of its name",
            fix="name a column like each input; one input alone may take the columns that are left" if rest else
            "leave columns out",
        )  # fmt: skip
    if rest:
        used = {label, *by_name}
        numeric = [name for name in names if name not in used and table.is_number(name) and not table.is_list(name)]
        by_name[rest[0]] = options.columns or numeric
        if not by_name[rest[0]]:
            raise BadRequest(f"{table.path} has no column of numbers for {rest[0]}", fix=f"it has {_list(names)}")
    text = next((name for columns in by_name.values() for name in columns if not table.is_number(name)), None)
    if text is not None:
        raise BadRequest(f"the column {text} of {table.path} holds no numbers", fix="name columns of numbers")
    used = {label, *(name for columns in by_name.values() for name in columns)}
    return _Columns(by_name, label, [name for name in names if name not in used and not table.is_number(name)])


def _require(path: Path, name: str, names: Sequence[str]) -> None:
    if name not in names:
        near = get_close_matches(name, names, n=1)
        fix = f"did you mean {near[0]}?" if near else f"it has {_list(names)}"
        raise BadRequest(f"{path} has no column {name}", fix=fix)


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _refuse_missing(path: Path, name: str, column: Any, start: int) -> None:
    if column.null_count:
        row = start + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False))) + 1
        raise BadRequest(f"{path}: the column {name} has no value in row {row}", fix="fill it in, or leave the row out")


def _rows_of(batch: Any, columns: _Columns, item: TensorSpec, path: Path) -> Array:
    """Return the rows of an input in its shape and dtype."""
    names = columns.inputs[item.name]
    arrays = [_numbers(batch.column(name), name, path) for name in names]
    rows = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=1)
    fix = "name the columns that it takes, in order: ?columns=A,B,... (docs/data.md)"
    if columns.left_out:
        fix = f"{fix}; {_list(columns.left_out)} {'holds' if len(columns.left_out) == 1 else 'hold'} no numbers"
    where = f"{path}, column {names[0]}," if len(names) == 1 else str(path)
    return cast_rows(reshape_rows(rows, item, str(path), fix), item, where)


def _numbers(column: Any, name: str, path: Path) -> Array:
    """Return a column as an array of shape (rows, numbers of a row)."""
    from pyarrow import types

    if not types.is_nested(column.type):
        numbers: Array = column.to_numpy(zero_copy_only=False)
        return numbers.reshape(-1, 1)
    flat = column.flatten().to_numpy(zero_copy_only=False)
    lengths = {len(row) for row in column}
    if len(lengths) > 1:
        raise BadRequest(f"{path}: the lists of {name} differ in length", fix="pad them to one length")
    return np.asarray(flat).reshape(len(column), -1)


def _labels_of(batch: Any, label: str | None, classes: Array | None) -> Array | None:
    if label is None:
        return None
    column = batch.column(label)
    if classes is None:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return np.searchsorted(classes, np.array(column.to_pylist(), dtype=str)).astype(np.int64)
