"""Coverage of onnx's operators: a new operator or wording shows up as a gap with a name."""

from pathlib import Path

from transload.converters.onnx_to_tf.coverage import update_page

PAGE = Path(__file__).parents[4] / "docs" / "design" / "lowering.md"


def test_the_page_lists_lowered_and_missing_operators():
    page = PAGE.read_text()
    assert update_page(page) == page, "write it anew: PAGE.write_text(update_page(PAGE.read_text()))"


def test_the_table_would_show_a_lowering_that_goes_missing(monkeypatch):
    from transload.converters.onnx_to_tf import lowerings

    monkeypatch.delitem(lowerings.entries(), ("", "Conv"))
    assert "Conv," in update_page(PAGE.read_text()).partition("**Not lowered")[2]
