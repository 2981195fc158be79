"""A table as a record: columns with their kinds, rows of values, notes. Printers make text of it, for each medium."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from .. import units


class CellKind(Enum):
    """What the values of a column are: their unit, or their part in the row."""

    TEXT = "text"
    NAME = "name"  # what the row is about
    ARTIFACT = "artifact"  # a name that has the colour of its format
    PHRASE = "phrase"  # a few words that stay on one line
    NOTE = "note"  # a long sentence
    CODE = "code"
    VERDICT = "verdict"
    MARKDOWN = "markdown"  # text with marks of Markdown's own; names in it are escaped already
    NUMBER = "number"  # a count, or a figure that is a text
    DIGITS = "digits"
    SECONDS = "seconds"
    BYTES = "bytes"
    JOULES = "joules"

    @property
    def is_number(self) -> bool:
        """Whether its values are set to the right."""
        return self is CellKind.NUMBER or self in _TEXTS


_TEXTS: Mapping[CellKind, Callable[[float], str]] = {
    CellKind.DIGITS: units.digits,
    CellKind.SECONDS: units.duration,
    CellKind.BYTES: units.size,
    CellKind.JOULES: units.energy,
}


@dataclass(frozen=True)
class Cell:
    """A text with what belongs to it: a weaker text behind it, addresses, a picture."""

    text: str
    aside: str = ""
    links: tuple[tuple[str, str], ...] = ()  # word and address, as a page may name it
    picture: str = ""  # PNG in base64; `text` says what it shows

    @classmethod
    def of(cls, value: Value, kind: CellKind) -> Cell:
        """Return a value as a cell: numbers in their unit, a dash where there is none, texts on one line."""
        if isinstance(value, Cell):
            return replace(value, text=units.plain(value.text), aside=units.plain(value.aside))
        if value is None:
            return cls(units.NONE if kind in _TEXTS else "")
        return cls(units.plain(value) if isinstance(value, str) else _TEXTS.get(kind, str)(value))


Value: TypeAlias = str | float | Cell | None
DITTO = Cell("")  # the value of the row above


@dataclass(frozen=True)
class Column:
    """A column: its title, and what its values are."""

    title: str
    kind: CellKind = CellKind.TEXT
    is_optional: bool = False  # the table has no such column where all its cells are empty


def columns(kind: CellKind, *titles: str) -> tuple[Column, ...]:
    """Return columns of one kind."""
    return tuple(Column(title, kind) for title in titles)


@dataclass(frozen=True)
class Table:
    """Rows of values, each with a value for each column. A table without rows is false, and printed as nothing."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, heads: Sequence[Column], rows: Sequence[Sequence[Value]], *notes: str) -> Table:
        """Return a table without the optional columns in which no row says anything."""
        kept = [
            at
            for at, column in enumerate(heads)
            if not column.is_optional or any(Cell.of(row[at], column.kind).text not in ("", units.NONE) for row in rows)
        ]
        return cls(tuple(heads[at] for at in kept), tuple(tuple(row[at] for at in kept) for row in rows), notes)

    def __bool__(self) -> bool:
        return bool(self.rows)

    def without(self, *titles: str) -> Table:
        """Return the table without these columns."""
        return self._with([column for column in self.columns if column.title not in titles])

    def only(self, *titles: str) -> Table:
        """Return the table with these columns alone, in this order."""
        return self._with([column for title in titles for column in self.columns if column.title == title])

    def grouped(self, *titles: str) -> Table:
        """Return the table with the values of these columns once for the rows that share the first of them."""
        shared = [column.title in titles for column in self.columns]
        at = shared.index(True)
        pairs = zip((None, *self.rows), self.rows, strict=False)
        rows = (
            tuple(DITTO if is_shared else value for value, is_shared in zip(row, shared, strict=True))
            if above and above[at] == row[at]
            else row
            for above, row in pairs
        )
        return replace(self, rows=tuple(rows))

    def _with(self, kept: Sequence[Column]) -> Table:
        places = [self.columns.index(column) for column in kept]
        return replace(self, columns=tuple(kept), rows=tuple(tuple(row[at] for at in places) for row in self.rows))

    def cells(self) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows as cells."""
        kinds = [column.kind for column in self.columns]
        for row in self.rows:
            yield tuple(
                value if value is DITTO else Cell.of(value, kind) for value, kind in zip(row, kinds, strict=True)
            )

    def texts(self) -> list[tuple[str, ...]]:
        """Return the titles of the columns, then the texts of each row; an empty list for a table without rows."""
        titles = tuple(column.title for column in self.columns)
        rows = [tuple(" ".join(filter(None, (cell.text, cell.aside))) for cell in row) for row in self.cells()]
        return [titles, *rows] if rows else []
