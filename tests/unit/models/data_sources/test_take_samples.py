"""The data folder of a user's samples: whatever they come from, checked against the signature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from transload.models.data_sources.data_argument import DataKind, source_digest
from transload.models.data_sources.source_options import TableOptions
from transload.models.data_sources.take_samples import take_samples
from transload.models.dataset import Dataset, read_dataset
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.signature import parse_input

X = (parse_input("x=float32[batch,3]"),)
ROWS = np.arange(900, dtype=np.float32).reshape(300, 3)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def facts_of(path: Path, kind: DataKind = DataKind.ARRAYS, **options: Any) -> dict[str, Any]:
    out = path.parent / "out"
    out.mkdir()
    options = {"inputs": [spec.to_json() for spec in X], **options}
    place = {"kind": kind, "place": str(path), "sha256": source_digest(kind, str(path))}
    return dict(take_samples(Job({}, out, {**options, **place})))


def take(path: Path, kind: DataKind = DataKind.ARRAYS, **options: Any) -> tuple[Dataset, Dataset]:
    facts = facts_of(path, kind, **options)
    out = path.parent / "out"
    test, calibration = (read_dataset(out / name, X) for name in ("test.npz", "calibration.npz"))
    sizes = {"test": len(test), "calibration": len(calibration), "labels": test.labels is not None}
    assert {name: facts[name] for name in sizes} == sizes
    return test, calibration


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_all_samples_are_the_test_set_and_some_calibrate(save: Any, tmp_path: Path) -> None:
    save(tmp_path / "d.npz", x=ROWS, labels=np.arange(300))
    test, calibration = take(tmp_path / "d.npz")
    np.testing.assert_array_equal(test.inputs["x"], ROWS)
    assert calibration.labels is not None
    assert len(set(calibration.labels)) == 256
    np.testing.assert_array_equal(calibration.inputs["x"][:, 0], calibration.labels * 3)


def test_the_first_samples_may_be_all_that_is_taken(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=ROWS)
    assert len(take(tmp_path / "d.npz", samples=7)[0]) == 7


def test_a_table_becomes_a_data_folder(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "d.csv", np.c_[ROWS, np.arange(300)], "%g", ",", header="a,b,c,label", comments="")
    test, _ = take(tmp_path / "d.csv", DataKind.TABLE)
    np.testing.assert_array_equal(test.inputs["x"], ROWS)
    assert test.labels is not None
    np.testing.assert_array_equal(test.labels, np.arange(300))


MADE_BY = "\n  fix: make it with numpy.savez(FILE, INPUT_NAME=array, labels=array)"
MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "labels": (
        {"x": ROWS, "labels": np.zeros(299)},
        "{path}: its arrays hold different numbers of samples: x 300, labels 299" + MADE_BY,
    ),
    "missing": (
        {"y": ROWS},
        "{path} holds the arrays y, and the model takes the inputs x\n"
        "  fix: name the arrays as the inputs: numpy.savez(FILE, x=array)",
    ),
    "labels of another name": (
        {"x": ROWS, "label": np.arange(300)},
        "{path} holds the arrays label, x, and the model takes the inputs x\n"
        "  fix: name the arrays as the inputs and the labels: numpy.savez(FILE, x=array, labels=label)",
    ),
    "dtype": (
        {"x": ROWS.astype("f8")},
        "the array x is of float64, and the input x=float32[batch,3] takes float32\n"
        "  fix: convert it where the samples are made, as in x=x.astype('float32')",
    ),
    "nothing": ({}, "{path}: it holds no inputs" + MADE_BY),
    "no samples": ({"x": ROWS[:0]}, "{path} holds no samples\n  fix: give at least one; more tell more"),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_what_a_person_reads_of_arrays_that_do_not_fit(case: str, tmp_path: Path) -> None:
    arrays, message = MESSAGES[case]
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(BadRequest) as caught:
        take(tmp_path / "d.npz")
    assert str(caught.value) == message.format(path=tmp_path / "d.npz")


def test_a_table_says_which_columns_it_gave_and_what_its_labels_are_called(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b,c,label\n1,2,3,virginica\n4,5,6,setosa\n")
    facts = facts_of(tmp_path / "d.csv", DataKind.TABLE)
    assert facts["preprocessing"] == ["x takes the columns a, b, c, in this order"]
    assert (facts["label_names"], facts["label_source"]) == ({"0": "setosa", "1": "virginica"}, "the data d.csv")


def test_samples_of_arrays_say_nothing_of_how_they_were_made(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=ROWS, labels=np.arange(300) % 7)
    assert facts_of(tmp_path / "d.npz").keys() == {"test", "calibration", "labels"}


def texts_of(path: Path, kind: DataKind = DataKind.ARRAYS, **options: Any) -> list[str]:
    return [finding["text"] for finding in facts_of(path, kind, **options).get("findings", ())]


def test_faults_are_facts_of_the_data(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=ROWS, labels=np.where(np.arange(300) == 41, np.nan, 1))
    assert texts_of(tmp_path / "d.npz") == [
        "d.npz: the labels hold NaN or an infinity in 1 of 300 samples, first in sample 42 (index 41)"
    ]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_a_fault_of_a_table_names_column_and_row(suffix: str, tmp_path: Path) -> None:
    columns: dict[str, Any] = {name: np.random.default_rng(at).normal(size=300) for at, name in enumerate("ab")}
    columns |= {"c": np.full(300, 4.0), "kind": np.arange(300) % 3}
    columns["b"][16] = np.nan
    path = tmp_path / f"d.{suffix}"
    table = pa.table({name: pa.array(values, from_pandas=False) for name, values in columns.items()})
    if suffix == "parquet":
        parquet.write_table(table, path)
    else:
        rows = "\n".join("\t".join(map(str, row)) for row in zip(*columns.values(), strict=True))
        path.write_text(("\t".join(columns) + "\n" + rows).replace("\t", "," if suffix == "csv" else "\t"))
    table_options = TableOptions(label="kind").to_json()
    assert texts_of(path, DataKind.TABLE, table=table_options) == [
        f"d.{suffix}: the column b holds NaN in 1 of 300 rows, first in row 17",
        f"d.{suffix}: the column c holds one value in all 300 rows, 4",
    ]


@pytest.mark.parametrize(("name", "fault"), [("target", True), ("Class", True), ("height", False)])
def test_a_label_that_nobody_named_is_told_by_its_name(name: str, fault: bool, tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(40, 3))
    np.savetxt(tmp_path / "d.csv", numbers, "%g", ",", header=f"a,b,{name}", comments="")
    hint = f"if it is one, give --data d.csv?label={name}"
    expected = [f"d.csv: the column {name} is taken as a feature, and none as the label: {hint}"]
    assert texts_of(tmp_path / "d.csv", DataKind.TABLE) == expected * fault


@pytest.mark.parametrize(("name", "fault"), [("target", True), ("Class", True), ("height", False)])
def test_a_label_that_no_input_reads_is_told_by_its_name(name: str, fault: bool, tmp_path: Path) -> None:
    rows = "\n".join(f"{at / 7},{'ab'[at % 2]}" for at in range(40))
    (tmp_path / "d.csv").write_text(f"x,{name}\n{rows}\n")
    inputs = [parse_input("x=float32[batch]").to_json()]
    hint = f"if it is one, give --data d.csv?label={name}"
    expected = [f"d.csv: the column {name} is not read, and none as the label: {hint}"]
    assert texts_of(tmp_path / "d.csv", DataKind.TABLE, inputs=inputs) == expected * fault
