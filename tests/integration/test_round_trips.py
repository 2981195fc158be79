"""A recipe goes through the formats and comes back: its numbers, and the names of what goes in and comes out."""

from __future__ import annotations

from pathlib import Path

import pytest

import transload
from transload.models.formats import Format
from transload.models.loading.code_refs import zoo_recipe

pytestmark = pytest.mark.usefixtures("loaded_once")

RECIPE = "breast-cancer-mlp"  # the quickest to train


@pytest.mark.slow
def test_a_recipe_comes_back_to_pytorch_through_onnx_and_saved_model(tmp_path: Path) -> None:
    wanted = zoo_recipe(RECIPE).signature
    first = model = f"zoo:{RECIPE}"
    made = tmp_path
    for at, leg in enumerate((Format.ONNX, Format.SAVED_MODEL, Format.ONNX, Format.PT2)):
        done = transload.convert(model, [leg], out=tmp_path / f"leg{at}", store=tmp_path / "store", jobs=1)
        (row,) = done.artifacts
        assert row.signature is not None, row.tried
        for have, want in ((row.signature.inputs, wanted.inputs), (row.signature.outputs, wanted.outputs)):
            assert [(each.name, each.dtype, each.shape[1:]) for each in have] == [
                (spec.name, spec.dtype, spec.shape[1:]) for spec in want
            ]
            assert all(isinstance(each.shape[0], str) for each in have)
        made = done.folder / leg
        model = str(made / leg.spec.payload)  # the bare file, without its record
    checked = transload.validate(
        made, against=first, batches=[1, 3], runs=tmp_path / "runs", store=tmp_path / "store", jobs=1
    )
    assert [row.batch for row in checked.drift] == [228, 1, 3, 65], "the whole test set, both batches, and a large one"
    assert all(row.sqnr_db is None or row.sqnr_db > 100 for row in checked.drift)
