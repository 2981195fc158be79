"""Runs the code cells of a notebook in this process, without Jupyter, and keeps what they show.

python -P tests/integration/run_notebook.py examples/live_model.ipynb        # in an empty folder; writes the outputs

The last expression of a cell is its result, as in Jupyter: HTML where it has some, else its repr.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def run_cells(notebook: dict[str, Any]) -> None:
    """Run all code cells in one namespace, and set their outputs. What a cell raises ends it."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook), 1):
        tree = ast.parse(source_of(cell))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed, result = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, f"cell {number}", "exec"), namespace)  # noqa: S102  (our own notebook)
            if isinstance(last, ast.Expr):
                result = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), namespace)  # noqa: S307
        cell["execution_count"] = number
        cell["outputs"] = [*_stream(printed.getvalue()), *_shown(result, number)]


def _stream(text: str) -> list[dict[str, Any]]:
    return [{"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}] if text else []


def _shown(result: Any, number: int) -> list[dict[str, Any]]:
    if result is None:
        return []
    html = getattr(result, "_repr_html_", None)
    data = {"text/html": html().splitlines(keepends=True)} if html else {"text/plain": [repr(result)]}
    return [{"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}]


def main(path: Path) -> None:
    notebook = json.loads(path.read_text())
    run_cells(notebook)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
