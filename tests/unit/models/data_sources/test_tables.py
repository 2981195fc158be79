"""Columns of a table become inputs: by name, or in order; what is missing or does not fit is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from transload.models.data_sources.sample_writer import collect
from transload.models.data_sources.source_options import TableOptions
from transload.models.data_sources.tables import read_table
from transload.models.dataset import Dataset
from transload.models.errors import BadRequest
from transload.models.signature import parse_input


def read(path: Path, *inputs: str, **options: object) -> Dataset:
    specs = tuple(map(parse_input, inputs))
    chunks = read_table(path, specs, TableOptions(**options))  # type: ignore[arg-type]
    return collect(chunks, path.parent / "scratch", str(path))


def csv(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_text(text)
    return path


def test_the_remaining_numeric_columns_fill_one_input_in_order(tmp_path: Path) -> None:
    path = csv(tmp_path, "id,b,a,label\np1,1.5,2,cat\np2,3,4.25,ape\n")
    data = read(path, "x=float32[batch,2]")
    assert data.inputs["x"].dtype == np.float32
    assert data.inputs["x"].tolist() == [[1.5, 2], [3, 4.25]]
    assert data.labels is not None
    assert data.labels.tolist() == [1, 0], "text is numbered in alphabetical order"


def test_inputs_take_the_columns_that_are_named_like_them(tmp_path: Path) -> None:
    path = csv(tmp_path, "ids,f1,f2,scale,y\n7,1,2,0.5,0.25\n8,3,4,1.5,0.75\n")
    data = read(path, "rest=float32[batch,2]", "ids=int32[batch]", "scale=float64[batch,1]", label="y")
    assert data.inputs["ids"].tolist() == [7, 8]
    assert data.inputs["ids"].dtype == np.int32
    assert data.inputs["scale"].tolist() == [[0.5], [1.5]]
    assert data.inputs["rest"].tolist() == [[1, 2], [3, 4]]
    assert data.labels is not None
    assert data.labels.tolist() == [0.25, 0.75]


def test_chosen_columns_fill_the_shape_of_a_picture_row_by_row(tmp_path: Path) -> None:
    path = csv(tmp_path, "a;b;c;d;e\n1;2;3;4;5\n")
    data = read(path, "image=uint8[batch,1,2,2]", columns=("e", "d", "c", "b"), sep=";")
    assert data.inputs["image"].tolist() == [[[[5, 4], [3, 2]]]]


def test_lists_of_parquet_fill_an_input_of_their_name_whatever_its_rank(tmp_path: Path) -> None:
    rows = np.arange(24, dtype=np.float32).reshape(4, 6)
    parquet.write_table(pa.table({"x": pa.array(list(rows)), "labels": [0, 1, 0, 1]}), tmp_path / "t.parquet")
    data = read(tmp_path / "t.parquet", "x=float32[batch,2,3]")
    np.testing.assert_array_equal(data.inputs["x"], rows.reshape(4, 2, 3))
    assert read(tmp_path / "t.parquet", "x=float32[batch,n]").inputs["x"].shape == (4, 6)


def test_many_rows_come_in_batches_and_stay_in_order(tmp_path: Path) -> None:
    rows = np.arange(60_000.0)
    parquet.write_table(pa.table({"x": rows, "label": rows.astype(int)}), tmp_path / "t.parquet")
    data = read(tmp_path / "t.parquet", "x=float64[batch]")
    np.testing.assert_array_equal(data.inputs["x"], rows)
    text = csv(tmp_path, "x\n" + "\n".join(f"{at}.0" if at % 2 else str(at) for at in range(300_000)))
    np.testing.assert_array_equal(read(text, "x=float64[batch]").inputs["x"], np.arange(300_000.0))


FIX = "name the columns that it takes, in order: ?columns=A,B,... (docs/data.md)"
MESSAGES: dict[str, tuple[str, dict[str, Any], str]] = {
    "none": ("a,b\n1,2\n", {"label": "bb"}, "{path} has no column bb\n  fix: did you mean b?"),
    "count": (
        "a,b,name\n1,2,x\n",
        {},
        "{path} has 2 numbers in a row for the input x, which takes [3]\n  fix: " + FIX + "; name holds no numbers",
    ),
    "text": (
        "a,b,c\n1,2,x\n",
        {"columns": ("a", "b", "c")},
        "the column c of {path} holds no numbers\n  fix: name columns of numbers",
    ),
    "hole": (
        "a,b,c\n1,2,3\n1,,3\n",
        {},
        "{path}: the column b has no value in row 2\n  fix: fill it in, or leave the row out",
    ),
    "ragged": (
        "a,b,c\n1,2,3\n1,2\n",
        {},
        "{path} cannot be read as a table: Row #3: Expected 3 columns, got 2: 1,2"
        "\n  fix: mend that place; docs/data.md has the form",
    ),
    "twice": ("a,a,c\n1,2,3\n", {}, "{path} names the column a twice\n  fix: give every column a name of its own"),
    "header": ("a,b,c\n", {}, "{path} holds no samples\n  fix: give at least one; more tell more"),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_what_a_person_reads_of_a_table_that_does_not_fit(case: str, tmp_path: Path) -> None:
    text, options, message = MESSAGES[case]
    path = csv(tmp_path, text)
    with pytest.raises(BadRequest) as caught:
        read(path, "x=float32[batch,3]", **options)
    assert str(caught.value) == message.format(path=path)


def test_numbers_that_the_input_cannot_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="column x, holds 300, which is no uint8"):
        read(csv(tmp_path, "x\n300\n"), "x=uint8[batch]")
    with pytest.raises(BadRequest, match=r"invalid value '1\.5'"):
        read(csv(tmp_path, "x\n1.5\n"), "x=int64[batch]")
    with pytest.raises(BadRequest, match="has no column for a and b"):
        read(csv(tmp_path, "x,y\n1,2\n"), "a=float32[batch]", "b=float32[batch]")


def test_what_is_no_parquet_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(BadRequest, match=r"t\.parquet cannot be read as a table: "):
        read(tmp_path / "t.parquet", "x=float32[batch]")


def test_what_pyarrow_cannot_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"x": [1.0, 2.0]}), path)
    content = bytearray(path.read_bytes())
    content[-12:-8] = b"\xff\xff\xff\xff"  # of the footer, before its length
    for broken in (content, content[:40] + b"\xff" * 30 + content[70:]):
        path.write_bytes(broken)
        with pytest.raises(BadRequest, match=r"t\.parquet cannot be read as a table: "):
            read(path, "x=float32[batch]")


def test_a_column_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\xff\n1,2\n")
    with pytest.raises(BadRequest, match=r"t\.csv cannot be read as a table: 'utf-8' codec"):
        read(path, "x=float32[batch,2]")
