"""What `transload store gc` removes is made again; what a folder needs stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from transload.pipeline.cli import main

pytestmark = pytest.mark.usefixtures("loaded_once")


NET = """
import torch

class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
"""
CODE = ["net.py:Net", "--input", "input=float32[batch,4]"]


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(CODE, id="code", marks=pytest.mark.slow),
        pytest.param(["zoo:breast-cancer-mlp"], id="recipe", marks=pytest.mark.slow),  # trains twice
    ],
)
def test_a_removed_conversion_is_made_again(
    model: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRANSLOAD_STORE", raising=False)
    Path("net.py").write_text(NET)
    convert = ["convert", *model, "--to", "onnx", "--out", "made", "--json"]

    def document(*words: str) -> dict[str, Any]:
        capsys.readouterr()
        assert main(words) == 0
        parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
        return parsed

    assert document(*convert)["verdict"] == "pass"
    listed = document("store", "ls", "--json")
    kinds = {item["what"].partition(" (")[0] for item in listed["items"]}
    assert {"data", "reference answers", "artifact pt2", "artifact onnx", "check of onnx"} <= kinds
    assert {item["model"] for item in listed["items"]} == {model[0]}
    assert [item["users"] for item in listed["items"]] == [
        [{"kind": "step", "folder": str(tmp_path / "made")}] for _ in listed["items"]
    ]
    assert document("store", "gc", "--json")["removed"] == []

    shutil.rmtree("made")
    removed = document("store", "gc", "--json")
    assert (len(removed["removed"]), removed["left_bytes"]) == (len(listed["items"]), 0)

    monkeypatch.setenv("TRANSLOAD_STORE_LIMIT", "1KB")
    assert main(convert) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["artifacts"][0]["status"] == "verified"
    assert "above its limit of 1 KB: this command or runs that are there use it" in said.err
    monkeypatch.delenv("TRANSLOAD_STORE_LIMIT")
    assert len(document("store", "ls", "--json")["items"]) == len(listed["items"])
    assert document("store", "verify", "--json", "--quiet")["broken"] == []
