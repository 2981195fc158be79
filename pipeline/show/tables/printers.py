"""A table as text for each medium: terminal, Markdown, pages, notebooks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby, pairwise

from markupsafe import Markup

from ...progress.terminal_text import align_columns
from ..markdown_text import escaped
from .table import DITTO, Cell, CellKind, Column, Table

# Of a notebook, which strips style sheets. White letters are read on each colour.
_GREEN, _RED, _AMBER, _GREY = "#0a6e4f", "#b3261e", "#8a5a00", "#5b6775"
_COLOURS = {
    "pass": _GREEN, "verified": _GREEN, "better": _GREEN, "fail": _RED, "failed": _RED, "worse": _RED,
    "inconclusive": _AMBER, "unverified": _AMBER, "degraded": _AMBER,
}  # fmt: skip
_NOTEBOOK_CELL = (
    "text-align:left;vertical-align:top;padding:2px 10px 2px 0;border-bottom:1px solid rgba(128,128,128,.4)"
)
_CLASSES = {
    CellKind.NAME: "name", CellKind.ARTIFACT: "name", CellKind.PHRASE: "nowrap", CellKind.NOTE: "small",
    CellKind.CODE: "mono small",
}  # fmt: skip


def to_text(table: Table, indent: str = "", gap: str = "  ") -> list[str]:
    """Return lines with the columns under each other, the titles first."""
    return align_columns(table.texts(), indent, gap)


def to_sections(table: Table, indent: str = "", gap: str = "  ") -> list[str]:
    """Return lines with the first column as a heading above its rows; without an indent, a blank line above that."""
    texts = table.texts()
    titles, *rows = align_columns([row[1:] for row in texts], indent, gap)
    lines = [titles]
    for name, group in groupby(zip(texts[1:], rows, strict=True), lambda pair: pair[0][0]):
        lines += [*([] if indent else [""]), name, *(row for _, row in group)]
    return lines


def to_markdown(table: Table) -> str:
    """Return a table of GitHub's Markdown. No text can end its cell."""
    lines = [[escaped(column.title) for column in table.columns]]
    lines += [["--:" if column.kind.is_number else "---" for column in table.columns]]
    lines += [[_markdown_cell(*pair) for pair in zip(row, table.columns, strict=True)] for row in table.cells()]
    notes = (f"\n\n<sub>{escaped(note)}</sub>" for note in table.notes)
    return "".join(["\n".join(f"| {' | '.join(line)} |" for line in lines), *notes]) if table else ""


def _markdown_cell(cell: Cell, column: Column) -> str:
    if column.kind is CellKind.MARKDOWN:
        return cell.text
    text = escaped(cell.text)
    if text and column.kind in (CellKind.NAME, CellKind.ARTIFACT):
        text = f"**{text}**"
    if cell.links:
        return f"[{text}]({cell.links[0][1]})"
    return f"{text} ({escaped(cell.aside)})" if cell.aside else text


def to_html(table: Table, title: str = "", css: str = "", *, anchors: bool = False) -> Markup:
    """Return a panel of a page with report.css. `css`: a class of the table; its cells then carry their titles.
    `anchors`: a link can lead to what the first column names."""
    rows = list(table.cells())
    starts = [at for at, row in enumerate(rows) if row[0] is not DITTO]
    if len(starts) == len(rows) and not anchors:
        starts = [0]
    groups = [rows[start:end] for start, end in pairwise([*starts, len(rows)])]
    titles = [_element("th", column.title, class_="n" * column.kind.is_number) for column in table.columns]
    bodies = (
        _element("tbody", *_html_rows(group, table.columns, css), id=group[0][0].text if anchors else "")
        for group in groups
    )
    heading = [_element("h3", title)] if title else []
    content = _element("table", _element("thead", _element("tr", *titles)), *bodies, class_=css)
    panel = _element("div", *heading, content, class_="panel scroll")
    return Markup().join([panel, *(_element("p", note, class_="soft small") for note in table.notes)])


def _html_rows(rows: Sequence[tuple[Cell, ...]], columns: Sequence[Column], css: str) -> list[Markup]:
    """Return table rows in HTML. A cell whose value the rows below share spans those rows."""
    lines = []
    for at, row in enumerate(rows):
        cells = []
        for place, (cell, column) in enumerate(zip(row, columns, strict=True)):
            if cell is not DITTO:
                span = _span(rows, at, place)
                attributes = {
                    "class_": "n" if column.kind.is_number else _CLASSES.get(column.kind, ""),
                    "rowspan": str(span) if span > 1 else "",
                    "data_label": column.title if css and column.kind.is_number else "",
                }
                cells.append(_element("td", _html_cell(cell, column.kind), **attributes))
        lines.append(_element("tr", *cells))
    return lines


def _span(rows: Sequence[tuple[Cell, ...]], at: int, place: int) -> int:
    end = at + 1
    while end < len(rows) and rows[end][place] is DITTO:
        end += 1
    return end - at


def _html_cell(cell: Cell, kind: CellKind) -> Markup:
    text = chip(cell.text) if kind is CellKind.VERDICT and cell.text else Markup.escape(cell.text)
    if kind is CellKind.ARTIFACT:
        text = _element("span", class_=f"dot {_slug(cell.text.partition(':')[0])}") + text
    if cell.picture:
        text = Markup('<img class="sample" alt="{}" src="data:image/png;base64,{}">').format(cell.text, cell.picture)
    links = Markup(", ").join(_element("a", word, href=address) for word, address in cell.links)
    asides = [_element("span", aside, class_="soft small") for aside in (cell.aside, links) if aside]
    return Markup(" ").join([text, *asides])


def chip(word: str) -> Markup:
    """Return a word that decides in its colour, for a page."""
    return _element("span", word, class_=f"chip {_slug(word)}")


def _slug(word: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", word.lower())


def to_notebook(table: Table) -> Markup:
    """Return the table in a notebook's own colours, with styles in the elements alone."""
    titles = [_element("th", column.title, style=_NOTEBOOK_CELL) for column in table.columns]
    rows = [
        _element("tr", *(_element("td", _notebook_word(text), style=_NOTEBOOK_CELL) for text in row))
        for row in table.texts()[1:]
    ]
    parts = _element("thead", _element("tr", *titles)), _element("tbody", *rows)
    return _element("table", *parts, style="border-collapse:collapse;color:inherit") if table else Markup()


def _notebook_word(text: str) -> str:
    return notebook_chip(text) if text in _COLOURS else text


def notebook_chip(word: str) -> Markup:
    """Return a word that decides in its colour, for a notebook."""
    style = f"background:{_COLOURS.get(word, _GREY)};color:#fff;border-radius:9px;padding:1px 8px"
    return _element("b", word, style=style)


def _element(tag: str, *content: str, **attributes: str) -> Markup:
    """Return an element with its texts escaped; empty attributes are left out."""
    named = [(name.rstrip("_").replace("_", "-"), text) for name, text in attributes.items() if text]
    head = Markup().join([Markup("<") + tag, *(Markup(' {}="{}"').format(*pair) for pair in named)])
    return Markup("{}>{}</{}>").format(head, Markup().join(content), tag)
