"""One table in every medium: units by kind, groups, marks that stay text."""

from __future__ import annotations

import pytest

from transload.pipeline.show.tables.printers import to_html, to_markdown, to_notebook, to_sections, to_text
from transload.pipeline.show.tables.table import Cell, CellKind, Column, Table, Value, columns

HEADS = (
    Column("artifact", CellKind.ARTIFACT), Column("gate", CellKind.VERDICT), Column("size", CellKind.BYTES),
    Column("p50", CellKind.SECONDS), Column("energy", CellKind.JOULES, is_optional=True), Column("remark"),
)  # fmt: skip
ROWS: list[tuple[Value, ...]] = [
    ("onnx", "pass", 2000, Cell("1 ms", "0.5"), None, "a|b"),
    ("onnx", "pass", None, 0.002, None, "<i>\n&"),
]
TABLE = Table.of(HEADS, ROWS, "a note")


def test_values_are_written_in_their_units_and_columns_that_say_nothing_are_left_out() -> None:
    assert to_text(TABLE) == [
        "artifact  gate  size  p50       remark",
        "onnx      pass  2 KB  1 ms 0.5  a|b",
        "onnx      pass  \u2013     2 ms      <i> &",
    ]
    assert [column.title for column in TABLE.without("gate", "size").columns] == ["artifact", "p50", "remark"]
    assert TABLE.only("p50", "artifact").texts()[1] == ("1 ms 0.5", "onnx")
    assert "energy" in Table.of(HEADS, [("a", "", 1, 1, 0.5, "")]).texts()[0]


def test_letters_of_two_columns_keep_the_next_column_in_place() -> None:
    rows = [("\u6a21\u578b", "x"), ("abcd", "y")]
    assert to_text(Table.of(columns(CellKind.TEXT, "", "t"), rows)) == ["      t", "\u6a21\u578b  x", "abcd  y"]


def test_sections_have_the_first_column_as_their_heading() -> None:
    table = TABLE.only("artifact", "gate", "remark")
    assert to_sections(table, "  ", " ") == ["  gate remark", "onnx", "  pass a|b", "  pass <i> &"]
    assert to_sections(table)[:3] == ["gate  remark", "", "onnx"]


def test_markdown_escapes_cells_sets_numbers_to_the_right_and_repeats_no_group() -> None:
    assert to_markdown(TABLE.grouped("artifact", "gate")).splitlines() == [
        "| artifact | gate | size | p50 | remark |",
        "| --- | --- | --: | --: | --- |",
        "| **onnx** | pass | 2 KB | 1 ms (0.5) | a\\|b |",
        "|  |  | \u2013 | 2 ms | &lt;i&gt; &amp; |",
        "",
        "<sub>a note</sub>",
    ]


def test_a_page_spans_grouped_cells_and_escapes_the_rest() -> None:
    html = to_html(TABLE.grouped("artifact", "gate"), "<title>", "decision")
    assert html.count('rowspan="2"') == 2
    assert html.count("<tbody>") == 1
    assert '<span class="chip pass">pass</span>' in html
    assert 'data-label="size">2 KB</td>' in html
    assert "&lt;i&gt; &amp;" in html
    assert "<h3>&lt;title&gt;</h3>" in html
    assert "<i>" not in html
    assert '<p class="soft small">a note</p>' in html


def test_each_group_is_a_place_that_a_link_can_lead_to() -> None:
    rows = [(Cell("a", links=(("log", "a%20b"), ("page", "c"))), 1), (Cell("b"), 2)]
    table = Table.of((Column("model", CellKind.NAME), Column("n", CellKind.NUMBER)), rows)
    html = to_html(table, anchors=True)
    assert '<tbody id="a">' in html
    assert '<tbody id="b">' in html
    assert '<a href="a%20b">log</a>, <a href="c">page</a>' in html
    assert "| [**a**](a%20b) | 1 |" in to_markdown(table)


@pytest.mark.parametrize("printer", [to_text, to_markdown, to_notebook])
def test_no_rows_are_printed_as_nothing(printer: object) -> None:
    assert callable(printer)
    assert not printer(Table.of(HEADS, []))
