"""The table of docs/design/lowering.md: which operators of onnx are lowered. A new operator shows up there.

python benchmarks/conformance/operator_table.py    writes it anew
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transload.converters.onnx_to_tf.lowerings import MICROSOFT, entries, find

PAGE = Path(__file__).resolve().parents[2] / "docs" / "design" / "lowering.md"

BEGIN = "<!-- operators: begin (benchmarks/conformance/operator_table.py) -->"
END = "<!-- operators: end -->"


def operator_table() -> str:
    """Return the part of the page between the marks: the standard domain's operators in their newest wording."""
    import onnx.defs

    schemas: list[Any] = [
        schema for schema in onnx.defs.get_all_schemas() if not schema.domain and not schema.deprecated
    ]
    newest = {schema.name: schema.since_version for schema in schemas}
    bodies = {schema.name for schema in schemas if schema.has_function or schema.has_context_dependent_function}
    lowered = sorted(name for name in newest if ("", name) in entries())
    spelled = sorted(bodies.difference(lowered))
    unread = sorted(f"{name} ({newest[name]})" for name in lowered if not find("", name, newest[name]))
    missing = sorted(set(newest).difference(lowered, spelled))
    foreign = sorted(name for domain, name in entries() if domain == MICROSOFT)
    parts = (
        f"Of the {len(newest)} operators that onnx knows, {len(lowered) + len(spelled)} are lowered.",
        f"**By a function of their own ({len(lowered)}):** {', '.join(lowered)}.",
        f"**By the body that the specification gives them ({len(spelled)}):** {', '.join(spelled)}.",
        f"**Not as the opset in brackets words them anew ({len(unread)}):** {', '.join(unread) or 'none'}.",
        f"**Of {MICROSOFT} ({len(foreign)}):** {', '.join(foreign)}.",
        f"**Not lowered ({len(missing)}):** {', '.join(missing)}.",
    )
    return "\n\n".join(parts)


def update_page(page: str) -> str:
    """Return a page with the table between the marks brought up to date."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{operator_table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(update_page(PAGE.read_text()))
