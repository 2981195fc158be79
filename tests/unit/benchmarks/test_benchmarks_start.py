"""Every benchmark starts, and the one of the server measures what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HOME = Path(__file__).parents[3] / "benchmarks"


def commands() -> list[str]:
    """The folders that are started, and the scripts that take options."""
    folders = [main.parent for main in HOME.glob("*/__main__.py")]
    ours = (script for script in HOME.rglob("*.py") if "/." not in f"/{script.relative_to(HOME)}")  # no .packages
    texts = {script: script.read_text() for script in ours if script.name != "__main__.py"}
    scripts = [script for script, text in texts.items() if '__name__ == "__main__"' in text and "argparse" in text]
    return sorted(str(path.relative_to(HOME)) for path in (*folders, *scripts))


@pytest.mark.parametrize("name", commands())
def test_it_starts(name: str) -> None:
    done = subprocess.run(
        [sys.executable, HOME / name, "--help"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")


@pytest.mark.slow
def test_a_round_of_latency_beside_the_echoes(tmp_path: Path) -> None:
    out = tmp_path / "serving.json"
    words = [sys.executable, "-P", str(HOME / "serving"), "latency", "--rounds", "1", "--out", str(out)]
    subprocess.run(words, check=True, capture_output=True, timeout=500)
    rows: dict[str, Any] = {row["name"]: row for row in json.loads(out.read_text())["latency"]["rows"]}
    assert rows["echo grpc"]["ratio"] == [1.0, 1.0, 1.0]
    served = {f"{name} {form}" for name in ("embedded", "serve") for form in ("onnx", "saved-model")}
    assert {name.rpartition(" ")[0] for name in rows} == {*served, "echo", "in process"}
    assert all(row["p50_us"] > 0 and len(row["ratio"]) == 3 for row in rows.values())
