"""Arrays in .npz files: what is written is read alike, mapped and not loaded; what is no plain array is refused."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from transload.models.array_file import MADE_BY, map_arrays, pieces, read_arrays, release, write_arrays
from transload.models.errors import BadRequest

SAMPLES = 200_000


def resident_bytes() -> int:
    """The resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@given(
    arrays_of.arrays(st.sampled_from(["<f4", ">f8", "?", "<i8", "<U3"]), arrays_of.array_shapes(min_dims=0, min_side=0))
)
def test_what_is_written_is_read_alike(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray) -> None:
    path = tmp_path_factory.mktemp("arrays") / "a.npz"
    write_arrays(path, {"x": array, "file": array})
    for read in (map_arrays(path), read_arrays(path), dict(np.load(path))):
        assert list(read) == ["x", "file"]
        for again in read.values():
            assert (again.dtype, again.shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(again, array)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_files_of_numpy_are_mapped_in_either_order_of_memory(tmp_path: Path, save: object) -> None:
    rows = np.arange(24.0).reshape(4, 6)
    columns = np.asfortranarray(rows)
    assert callable(save)
    save(tmp_path / "a.npz", rows=rows, columns=columns, none=rows[:0])
    mapped = map_arrays(tmp_path / "a.npz", tmp_path / "scratch.npz")
    np.testing.assert_array_equal(mapped["rows"], rows)
    np.testing.assert_array_equal(mapped["columns"], rows)
    assert mapped["none"].shape == (0, 6)


def test_own_files_are_mapped_where_every_dtype_is_aligned(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", {"b": np.ones(3, np.uint8), "long name": np.ones(5), "c": np.ones((2, 2), "c16")})
    for array in map_arrays(tmp_path / "a.npz").values():
        assert array.ctypes.data % 64 == 0
        assert not array.flags.writeable


def test_reading_all_of_a_mapped_array_takes_no_more_memory_than_a_piece(tmp_path: Path) -> None:
    write_arrays(tmp_path / "a.npz", {"x": np.ones((SAMPLES, 64), np.float32)})  # 51 MB
    array = map_arrays(tmp_path / "a.npz")["x"]
    before, most = resident_bytes(), 0
    total = 0.0
    for piece in pieces(array):
        total += float(piece.sum())
        most = max(most, resident_bytes())
    assert total == SAMPLES * 64
    assert most - before < 20e6
    array.sum()
    assert resident_bytes() - before > 40e6, "without a release it is all resident: this test can fail"
    release([array])
    assert resident_bytes() - before < 20e6


def lying(path: Path) -> None:
    np.savez(path, x=np.ones(10))
    path.write_bytes(path.read_bytes().replace(b"(10,)", b"(99,)"))


def with_text(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "no array")


def objects(path: Path) -> None:
    np.savez(path, x=np.array([{}], dtype=object))


def single(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.ones(3))


def compressed_objects(path: Path) -> None:
    np.savez_compressed(path, x=np.array([{}], dtype=object))


REFUSED = {
    lying: "x says that it holds 792 bytes, and 80 are there",
    objects: "it holds pickled objects",
    compressed_objects: "it holds pickled objects",
    single: "File is not a zip file",
    with_text: "the magic string is not correct; expected b'\\x93NUMPY', got b'no arr'",
}


@pytest.mark.parametrize("make", REFUSED)
def test_a_file_that_holds_no_plain_arrays_is_refused(tmp_path: Path, make: object) -> None:
    path = tmp_path / "a.npz"
    assert callable(make)
    make(path)
    with pytest.raises(BadRequest) as caught:
        map_arrays(path, tmp_path / "scratch")
    expected = f"{path} is not an .npz file of plain arrays: {REFUSED[make]}\n  fix: {MADE_BY}"
    assert str(caught.value) == expected


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(BadRequest, match=re.escape("no such file: none.npz")):
        map_arrays(Path("none.npz"))
