"""Inputs that are told by samples whose arrays or columns are called as forward's parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from transload.models.data_sources.data_argument import parse_data, source_digest
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.job_records import SourceOptions, SourceSamplesOptions
from transload.models.loading.inputs_from_data import infer_inputs
from transload.models.signature import TensorSpec

CODE = """
from torch import nn

class One(nn.Module):
    def forward(self, x):
        return x

class Two(nn.Module):
    def forward(self, ids, x, mask=None, labels=None, *rest, **more):
        return x

class Known(nn.Module):
    example_input_array = None
    def __init__(self):
        super().__init__()
        import torch
        self.example_input_array = torch.zeros(2, 3)
    def forward(self, x):
        return x

class Nameless(nn.Module):
    def forward(self, *args):
        return args
"""
X = np.zeros((5, 3, 8), np.float32)
IDS, MASK = np.zeros((5, 7), np.int64), np.zeros(5, bool)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)


def facts(name: str, data: str) -> dict[str, Any]:
    argument = parse_data(data)
    samples = SourceSamplesOptions(
        kind=argument.kind, place=argument.place, sha256=source_digest(argument.kind, argument.place),
        images=argument.images, table=argument.table, inputs=(),
    )  # fmt: skip
    options = SourceOptions(ref=f"mine.py:{name}", root=str(Path.cwd()), data=samples)
    return dict(infer_inputs(Job({}, Path.cwd(), options.to_json())))


def inferred(name: str, data: str) -> list[str]:
    return [str(TensorSpec.from_json(row)) for row in facts(name, data)["inputs"]]


def test_arrays_tell_dtypes_and_sizes_and_a_note_says_so() -> None:
    np.savez("d.npz", x=X, labels=np.zeros(5))
    assert inferred("One", "d.npz") == ["x=float32[batch,3,8]"]
    assert facts("One", "d.npz")["notes"] == ["inputs taken from d.npz: x=float32[batch,3,8]"]


def test_optional_parameters_are_inputs_where_they_have_arrays_but_labels_stay_labels() -> None:
    np.savez_compressed("d.npz", x=X, ids=IDS, mask=MASK, labels=np.zeros(5))
    assert inferred("Two", "d.npz") == ["ids=int64[batch,7]", "x=float32[batch,3,8]", "mask=bool[batch]"]
    np.savez("e.npz", x=X, ids=IDS)
    assert inferred("Two", "e.npz") == ["ids=int64[batch,7]", "x=float32[batch,3,8]"]


@pytest.mark.parametrize("name", ["Known", "Nameless"])
def test_nothing_is_inferred_where_the_code_says_it_or_names_nothing(name: str) -> None:
    np.savez("d.npz", x=X)
    assert facts(name, "d.npz") == {}


def test_an_array_that_lacks_or_has_a_strange_dtype_is_named() -> None:
    np.savez("d.npz", ids=IDS, other=X)
    with pytest.raises(BadRequest, match=r"forward takes ids, x, and d\.npz holds ids, other, no x"):
        facts("Two", "d.npz")
    np.savez("e.npz", x=X.astype(np.complex64))
    with pytest.raises(BadRequest, match="the array x is complex64, which the formats do not carry"):
        facts("One", "e.npz")


def test_columns_tell_inputs_by_their_names_or_all_that_are_left() -> None:
    Path("d.csv").write_text("ids,x,mask,label\n1,0.5,true,a\n2,1.5,false,b\n")
    assert inferred("Two", "d.csv") == ["ids=int64[batch]", "x=float32[batch]", "mask=bool[batch]"]
    Path("e.csv").write_text("a,b,name,target\n1,0.5,u,0\n2,1.5,v,1\n")
    assert inferred("One", "e.csv?label=target") == ["x=float32[batch,2]"]
    assert inferred("One", "e.csv?columns=a") == ["x=int64[batch,1]"]
    with pytest.raises(BadRequest, match=r"has no column for ids and x; it has a, b, name, target"):
        facts("Two", "e.csv")


def test_lists_of_parquet_have_the_size_of_the_first() -> None:
    parquet.write_table(pa.table({"x": [[0.5, 1.0, 2.0], [1.0, 1.0, 1.0]], "label": [0, 1]}), "d.parquet")
    assert inferred("One", "d.parquet") == ["x=float32[batch,3]"]
    parquet.write_table(pa.table({"x": pa.array([], pa.list_(pa.int32()))}), "e.parquet")
    assert inferred("One", "e.parquet") == ["x=int32[batch]"]


@pytest.mark.parametrize(
    ("mode", "options", "shape"),
    [
        ("RGB", "size=8x6&range=0..1", "3,8,6"),
        ("RGB", "layout=hwc&range=0..1", "10,12,3"),
        ("L", "range=0..1", "1,10,12"),
        ("L", "range=0..1&mean=0.1,0.2,0.3", "3,10,12"),
    ],
)
def test_an_image_tells_the_one_input(mode: str, options: str, shape: str) -> None:
    Path("photos").mkdir()
    Image.new(mode, (12, 10)).save("photos/a.png")
    assert inferred("One", f"photos?{options}") == [f"x=float32[batch,{shape}]"]
    with pytest.raises(BadRequest, match="a folder of images fills one input, and the model takes ids, x"):
        facts("Two", f"photos?{options}")
