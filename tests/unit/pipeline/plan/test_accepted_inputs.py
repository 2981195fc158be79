"""What a file takes that refused random samples is found by asking its session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from transload.models.artifact import write_artifact
from transload.models.dataset import Dataset, write_dataset
from transload.models.errors import SessionLost
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.probes.feeds import sample_specs
from transload.models.probes.random_inputs import sample_tensors
from transload.models.signature import Array, Signature, parse_input
from transload.pipeline.drift.drift_records import AcceptedFacts
from transload.pipeline.plan import accepted_inputs


class Picky:
    """A model in a file that refuses inputs at which `takes` is False."""

    device = "cpu"

    def __init__(self, wanted: str, takes: Callable[[Array], bool], tables: tuple[int, ...] = ()) -> None:
        self.signature = Signature((parse_input(wanted),), (parse_input("y=float32[any]"),))
        self.table_rows = tables
        self._takes = takes

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        (x,) = feeds.values()
        if not self._takes(x):
            raise SessionLost("index out of range", fix="")
        return {"y": np.ones((len(x), 1), np.float32)}

    def close(self) -> None:
        pass


def find(model: Picky, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AcceptedFacts:
    specs = model.signature.inputs
    samples = sample_tensors(sample_specs(specs), {"batch": 64, "*samples": 64, "h": 9, "w": 11})
    write_dataset(folder / "test.npz", Dataset(samples))
    (folder / "model.keras").touch()
    write_artifact(folder, Target(Format.KERAS), model.signature)
    monkeypatch.setattr(accepted_inputs, "open_for", lambda *_: model)
    job = Job(dict.fromkeys(("model", "data"), folder), folder, {"runtime": "keras"})
    return AcceptedFacts.part_of(accepted_inputs.find_inputs(job))


CASES = {
    "x=int64[batch,3]": (2, (), "0..1", "numbers 0..1 by asking the model, which refuses others"),
    "x=int64[batch]": (3, (3,), "0..2", "ids 0..2 by its smallest table"),
    "x=float32[batch,3]": (7, (7, 30), "0..6.99",
                           "numbers 0..6.99 in all 3 columns, by its smallest table (of 7, 30 rows)"),
    "x=float32[batch]": (40, (), "0..31.99", "numbers 0..31.99 by asking the model, which refuses others"),
}  # fmt: skip


@pytest.mark.parametrize("wanted", CASES)
def test_numbers_are_found(wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, tables, limits, note = CASES[wanted]
    model = Picky(wanted, lambda x: bool((x >= 0).all() and (x < rows).all()), tables)
    facts = find(model, tmp_path, monkeypatch)
    assert list(map(str, facts.inputs)) == [f"{wanted} in {limits}"]
    assert facts.notes == (f"x: {note}; give --data for more",)


def test_sizes_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Picky("x=float32[batch,h,w]", lambda x: x.shape[1] % 8 == 0)
    facts = find(model, tmp_path, monkeypatch)
    assert list(map(str, facts.inputs)) == ["x=float32[batch,h=8..:8,w]"]
    assert facts.notes == ("sizes h=8..:8 by asking the model, which refuses others",)


def test_nothing_is_chosen_where_no_trial_has_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = find(Picky("x=int64[batch,3]", lambda x: False), tmp_path, monkeypatch)
    assert (facts.inputs, facts.notes) == ((), ())
