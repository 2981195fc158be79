"""README.md of an artifact: its snippet runs, and what names say stays text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from transload.models.formats import Format, formats
from transload.models.signature import Signature, TensorSpec
from transload.pipeline.show.card.card_records import ModelFacts
from transload.pipeline.show.card.card_text import card_text
from transload.pipeline.show.card.snippets import snippet

from .card_samples import SIGNATURE, write_folder


def code_in(text: str) -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return code


def run_snippet(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102  (what a reader of the card does)
    return names


def write_onnx(path: Path) -> None:
    """Write a model of SIGNATURE that adds the ids to the image."""
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 4])
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    nodes = [
        helper.make_node("Cast", ["ids"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["floats", "one"], ["column"]),
        helper.make_node("Add", ["image", "column"], ["y"]),
    ]
    one = helper.make_tensor("one", TensorProto.INT64, [1], [1])
    graph = helper.make_graph(nodes, "add", [image, ids], [y], [one])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


def test_the_snippet_of_a_card_calls_the_model_with_sizes_and_values_that_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_onnx(tmp_path / Format.ONNX.spec.payload)
    names = run_snippet(code_in(card_text(write_folder(tmp_path))), tmp_path, monkeypatch)
    assert names["inputs"]["image"].shape == (2, 4)  # the least even batch
    np.testing.assert_array_equal(names["outputs"]["y"], np.full((2, 4), 3.5))  # the least image and the least id


def test_a_snippet_has_five_lines() -> None:
    one_input = Signature(SIGNATURE.inputs[:1], SIGNATURE.outputs)
    lengths = {form: len(snippet(form, one_input).splitlines()) for form in formats()}
    assert lengths == dict.fromkeys(formats(), 5)


def test_a_card_says_what_is_known(tmp_path: Path) -> None:
    card = write_folder(tmp_path)
    text = card_text(card)
    for words in (
        "# net.py:Net: ONNX, fp32", f"`{card.sha256}`", "**verified**: agrees to 120 dB",
        "0: cat, 1: dog. By the data photos.",
        f"{'c' * 40}, with changes since in net.py", "transload 0.1.0, torch 2.13.0, onnx 1.23.2", "0.5..1", "3..9",
        "| onnxruntime | 1, 2 | 64 | 120 dB | 60.0 dB or more | 1e-06 |  |", "- Not asked: batch 9 and larger",
        "Sizes: `batch` is 2..8:2.",
            "| `provenance.json` | the statement of its source,", "- An image becomes image: its bytes as they are",
    ):  # fmt: skip
        assert words in text
    bare = write_folder(tmp_path, model=ModelFacts(), checks=(), provenance=None)
    assert not re.search("commit|Labels|Preprocessing|Verified|made from", card_text(bare))


def test_names_of_strangers_stay_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a|b```'\"); import os; ("
    signature = Signature((TensorSpec(name, "float32", (2,)),), (TensorSpec(f"{name}y", "float32", (2,)),))
    x, y = (helper.make_tensor_value_info(text, TensorProto.FLOAT, [2]) for text in (name, f"{name}y"))
    graph = helper.make_graph([helper.make_node("Abs", [x.name], [y.name])], "abs", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, tmp_path / Format.ONNX.spec.payload)
    text = card_text(write_folder(tmp_path, signature=signature, name="<script>[x](y)"))
    assert "<script>" not in text
    row = next(line for line in text.splitlines() if line.startswith("| input"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 6
    names = run_snippet(code_in(text), tmp_path, monkeypatch)
    assert "os" not in names
    assert names["outputs"][f"{name}y"].tolist() == [0, 0]
