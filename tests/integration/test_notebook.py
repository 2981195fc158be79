"""The notebook under examples/ runs as it is, and shows what it showed when it was run last."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import transload

from .run_notebook import code_cells, run_cells, source_of

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "live_model.ipynb"


def read() -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(NOTEBOOK.read_text())
    return notebook


def html_of(cell: dict[str, Any]) -> str:
    return "".join(text for output in cell["outputs"] for text in output.get("data", {}).get("text/html", ()))


def test_its_cells_compile_and_what_they_call_is_there() -> None:
    trees = [ast.parse(source_of(cell)) for cell in code_cells(read())]
    used = {
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "transload"
    }
    assert used >= {"convert", "validate", "bench"}
    assert used <= set(transload.__all__)
    assert (read()["nbformat"], len({cell["id"] for cell in read()["cells"]})) == (4, len(read()["cells"]))


def test_its_outputs_are_kept_and_name_no_machine() -> None:
    cells = code_cells(read())
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    shown = [html_of(cell) for cell in cells if html_of(cell)]
    assert len(shown) == 4
    assert all(">pass</b>" in html for html in shown)
    assert not re.search(r"/(home|tmp|root|Users)\b|error|Traceback", json.dumps([cell["outputs"] for cell in cells]))


def test_pages_lead_to_it() -> None:
    for page, link in (("README.md", "examples/live_model.ipynb"), ("docs/convert.md", "../examples/live_model.ipynb")):
        assert link in (ROOT / page).read_text()


def test_the_runner_shows_what_jupyter_would_show() -> None:
    cells = [{"cell_type": "code", "source": [line]} for line in ("x = 2", "print(x)", "x + 1", "None")]
    run_cells({"cells": cells})
    assert [cell["outputs"] for cell in cells] == [
        [],
        [{"output_type": "stream", "name": "stdout", "text": ["2\n"]}],
        [{"output_type": "execute_result", "execution_count": 3, "metadata": {}, "data": {"text/plain": ["3"]}}],
        [],
    ]
    with pytest.raises(ZeroDivisionError):
        run_cells({"cells": [{"cell_type": "code", "source": ["1 / 0"]}]})


@pytest.mark.slow
def test_it_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    copy = tmp_path / NOTEBOOK.name
    copy.write_text(NOTEBOOK.read_text())
    command = [sys.executable, "-P", str(Path(__file__).with_name("run_notebook.py")), copy.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    fresh, kept = code_cells(json.loads(copy.read_text())), code_cells(read())
    for cell, before in zip(fresh, kept, strict=True):
        assert ('">pass</b>' in html_of(cell)) == ('">pass</b>' in html_of(before))
        assert [output["output_type"] for output in cell["outputs"]] == [
            output["output_type"] for output in before["outputs"]
        ]
