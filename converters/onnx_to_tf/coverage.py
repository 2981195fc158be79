"""What onnx knows and what is lowered of it, as a table for docs/design/lowering.md: a new operator shows up there."""

from __future__ import annotations

from .registry import entries, find

BEGIN = "<!-- operators: begin (converters/onnx_to_tf/coverage.py) -->"
END = "<!-- operators: end -->"


def table() -> str:
    """The part of the page between the marks: the operators of the standard domain in their newest wording."""
    import onnx.defs

    newest = {
        schema.name: schema.since_version
        for schema in onnx.defs.get_all_schemas()
        if not schema.domain and not schema.deprecated
    }
    missing = sorted(name for name in newest if ("", name) not in entries())
    unread = sorted(
        f"{name} ({since})" for name, since in newest.items() if name not in missing and not find("", name, since)
    )
    lowered = sorted(set(newest) - set(missing))
    parts = (
        f"Of the {len(newest)} operators that onnx knows, {len(lowered)} are lowered.",
        f"**Lowered ({len(lowered)}):** {', '.join(lowered)}.",
        f"**Lowered, but not as the opset in brackets words it anew ({len(unread)}):** {', '.join(unread)}.",
        f"**Not lowered ({len(missing)}):** {', '.join(missing)}.",
    )
    return "\n\n".join(parts)


def updated(page: str) -> str:
    """A page with the table between the marks brought up to date."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"
