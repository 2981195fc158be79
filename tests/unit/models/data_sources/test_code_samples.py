"""Code of the user's that gives samples: any form of item, one or several samples each; errors are one sentence."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from transload.models.data_sources.code_samples import read_code
from transload.models.data_sources.sample_writer import collect
from transload.models.dataset import Dataset
from transload.models.errors import BadRequest
from transload.models.signature import parse_input
from transload.models.sources import CodeRef

CODE = """
import numpy as np
import torch
from collections import UserDict

rows = np.arange(12, dtype=np.float32).reshape(6, 2)

class Map(torch.utils.data.Dataset):
    def __len__(self): return 6
    def __getitem__(self, at): return torch.tensor(rows[at]), at

class Stream(torch.utils.data.IterableDataset):
    def __iter__(self): return ((torch.tensor(row), at) for at, row in enumerate(rows))

loader = torch.utils.data.DataLoader(Map(), batch_size=4)
listed = [(row, at) for at, row in enumerate(rows)]

def dicts():
    for at, row in enumerate(rows):
        yield UserDict(x=torch.tensor(row, requires_grad=True), label=at)

def pairs():
    for at, row in enumerate(rows):
        yield {"x": row}, at

def batches():
    yield rows[:4], np.arange(4)
    yield [rows[4:]], [4, 5]

def bare():
    yield rows

def two():
    for at, row in enumerate(rows):
        yield row, np.int64(at), at

def two_without_labels():
    for at, row in enumerate(rows):
        yield row, np.int64(at)

def raising():
    yield rows[0], 1
    raise KeyError("gone")

def uneven():
    yield rows[:3], [1, 2]

def longer():
    yield rows[0], 1
    yield np.zeros(3, np.float32), 1

def sometimes():
    yield rows[0], 1
    yield rows[0]

def words():
    yield ["a", "b"]

def nothing():
    return iter(())

def needing(path, *more, size=1):
    return rows

class Broken(Map):
    def __getitem__(self, at): return super().__getitem__(at) if at < 3 else {}["gone"]

def processes():
    return torch.utils.data.DataLoader(Broken(), batch_size=2, num_workers=1)

def endless():
    while True:
        yield rows[0], 1

number = 3
"""


def read(folder: Path, name: str, *inputs: str, most: int | None = None) -> Dataset:
    path = folder / "data.py"
    path.write_text(CODE)
    ref = CodeRef(str(path) + ":" + name, str(folder))
    specs = tuple(map(parse_input, inputs or ("x=float32[batch,2]",)))
    return collect(read_code(ref, specs), folder / "scratch", name, most)


LABELLED = ["Map", "Stream", "loader", "listed", "dicts", "pairs", "batches"]


@pytest.mark.parametrize("name", LABELLED)
def test_every_form_gives_the_same_samples(name: str, tmp_path: Path) -> None:
    data = read(tmp_path, name)
    np.testing.assert_array_equal(data.inputs["x"], np.arange(12, dtype=np.float32).reshape(6, 2))
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1, 2, 3, 4, 5]


def test_several_inputs_come_in_the_models_order_with_or_without_labels(tmp_path: Path) -> None:
    two = ("x=float32[batch,2]", "id=int64[batch]")
    data = read(tmp_path, "two", *two)
    assert data.inputs["id"].tolist() == list(range(6))
    assert data.labels is not None
    assert read(tmp_path, "two_without_labels", *two).labels is None
    assert read(tmp_path, "bare").labels is None


def test_no_more_samples_are_taken_than_were_asked_for(tmp_path: Path) -> None:
    assert read(tmp_path, "loader", most=5).inputs["x"].shape == (5, 2)
    assert read(tmp_path, "raising", most=1).inputs["x"].shape == (1, 2), "what comes later is never asked for"


BROKEN_LINE = next(at for at, line in enumerate(CODE.splitlines(), 1) if '{}["gone"]' in line)
RAISING_LINE = CODE.splitlines().index('    raise KeyError("gone")') + 1
FORMS = "(inputs, labels); inputs are an array, a tuple of arrays in the model's order, or a dict by name"
SHAPES = f"\n  fix: give one sample, or several along a first axis, as {FORMS}"
MESSAGES = {
    "raising": f"{{file}}:raising, after 1 items, raised KeyError at {{file}}:{RAISING_LINE}: 'gone'"
    "\n  fix: mend {file}; the log has the traceback",
    "processes": f"{{file}}:processes, after 1 items, raised KeyError at {{file}}:{BROKEN_LINE}: 'gone'"
    "\n  fix: mend {file}; the log has the traceback",
    "needing": "{file}:needing takes path, and is called without arguments"
    "\n  fix: give them defaults, or name a function without arguments that makes it",
    "uneven": "{file}:uneven gives 3 samples and 2 labels in item 1, and one sample is x [2]" + SHAPES,
    "longer": "longer gives x as float32[3] in sample 2, and as float32[2] before"
    "\n  fix: give all samples one dtype and one shape; pad what is shorter",
    "sometimes": "sometimes gives x, labels with its first samples, and x with later ones"
    "\n  fix: give every sample the same inputs, and each a label or none",
    "nothing": "nothing holds no samples\n  fix: give at least one; more tell more",
    "number": "{file}:number gives a int, which holds no samples"
    f"\n  fix: let it give a torch Dataset, a DataLoader, or anything that can be iterated, of {FORMS}",
    "two": "{file}:two gives 3 arrays in item 1, and one sample is x [2]" + SHAPES,
}


@pytest.mark.parametrize("name", MESSAGES)
def test_what_a_person_reads_of_code_that_gives_no_samples(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        read(tmp_path, name)
    assert str(caught.value) == MESSAGES[name].format(file=tmp_path / "data.py")


def test_text_is_no_sample(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="an array of numbers belongs"):
        read(tmp_path, "words")


def test_samples_without_an_end_are_refused_before_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=6400))
    with pytest.raises(BadRequest) as caught:
        read(tmp_path, "endless")
    assert str(caught.value) == (
        "endless has given 201 samples (3.22e-06 GB) and goes on; they fill half of the free disk"
        "\n  fix: let it end, or say how many to take: ?samples=10000"
    )
    assert len(read(tmp_path, "endless", most=150)) == 150
