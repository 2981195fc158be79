"""What `--data` may name, and what is refused before anything is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from transload.models.data_sources.data_argument import DataKind, parse_data, source_digest
from transload.models.data_sources.source_options import ImageOptions, TableOptions
from transload.models.errors import BadRequest


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for name in ("a.npz", "t.csv", "t.parquet", "odd?name=1.csv", "notes.txt"):
        (tmp_path / name).write_text("x")


def test_the_place_decides_how_it_is_read(tmp_path: Path) -> None:
    kinds = {
        "a.npz": DataKind.ARRAYS,
        "photos/": DataKind.IMAGES,
        "t.csv": DataKind.TABLE,
        "t.parquet?samples=3": DataKind.TABLE,
        "data.py:loader": DataKind.CODE,
        "package.module:make?samples=9": DataKind.CODE,
    }
    assert {text: parse_data(text).kind for text in kinds} == kinds
    assert parse_data("a.npz", str(tmp_path)).place == f"{tmp_path}/a.npz"
    assert parse_data("data.py:loader").place == "data.py:loader"
    assert parse_data("odd?name=1.csv").place.endswith("odd?name=1.csv"), "a file of that name is no option"


@pytest.mark.parametrize("place", ["/proc", "/proc/self/fd", "here/net"])
def test_a_folder_of_the_kernel_is_not_listed(place: str, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to("/proc/self")
    with pytest.raises(BadRequest, match=f"^{place} is a folder of the kernel, and holds no data"):
        parse_data(place)


def test_what_no_disk_holds_is_not_read(tmp_path: Path) -> None:
    os.truncate(tmp_path / "a.npz", 1 << 40)
    with pytest.raises(BadRequest, match="is said to have"):
        source_digest(DataKind.ARRAYS, str(tmp_path / "a.npz"))


def test_options_say_how_images_and_tables_are_read() -> None:
    text = "photos?size=24x32&range=-1..1&mean=0.5,0.25,0&std=2&order=bgr&layout=hwc&resample=bicubic&samples=10"
    parsed = parse_data(text)
    assert parsed.samples == 10
    assert parsed.images == ImageOptions(
        size=(24, 32), range=(-1, 1), mean=(0.5, 0.25, 0), std=(2,), order="bgr", layout="hwc", resample="bicubic"
    )
    assert parse_data("photos?crop=8&resize=9").images == ImageOptions(crop=(8, 8), resize=9)
    table = parse_data("t.csv?label=y&columns=a,b&sep=tab").table
    assert table == TableOptions(label="y", columns=("a", "b"), sep="\t")


MESSAGES = {
    "photos?sise=3": "the data 'photos?sise=3': images have no option 'sise'\n  fix: did you mean size?",
    "t.csv?q=3": "the data 't.csv?q=3': a table has no option 'q'\n  fix: use one of samples, label, columns, sep",
    "photos?size=3xq": "the data 'photos?size=3xq': size=3xq is not a size"
    "\n  fix: write a size, as in size=224 or size=224x320 (height x width)",
    "photos?range=0-1": "the data 'photos?range=0-1': range=0-1 is not a range"
    "\n  fix: write a range, as in range=0..1, range=-1..1 or range=0..255",
    "photos?mean=nan": "the data 'photos?mean=nan': mean=nan is not numbers"
    "\n  fix: write numbers, as in mean=0.485,0.456,0.406",
    "photos?size": "the data 'photos?size': 'size' is not of the form OPTION=VALUE"
    "\n  fix: write it as in 'photos/?resize=256&crop=224'",
    "photos?size=1&size=2": "the data 'photos?size=1&size=2': 'size=2' stands there twice"
    "\n  fix: write it as in 'photos/?resize=256&crop=224'",
    "data.py": "data.py is code, and nothing in it is named\n  fix: name what gives samples: data.py:NAME",
    "notes.txt": "notes.txt is no data of a kind that is known"
    "\n  fix: name FILE.npz, a folder of images, FILE.csv, FILE.parquet or FILE.py:NAME (docs/data.md)",
    "none.csv": "no such file: none.csv"
    "\n  fix: check --data; it names FILE.npz, a folder of images, FILE.csv, FILE.parquet or FILE.py:NAME "
    "(docs/data.md)",
}


@pytest.mark.parametrize("text", MESSAGES)
def test_what_a_person_reads_of_data_that_has_no_known_form(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_data(text)
    assert str(caught.value) == MESSAGES[text]


def test_a_folder_is_another_once_a_file_in_it_is(tmp_path: Path) -> None:
    def digest() -> str:
        return source_digest(DataKind.IMAGES, str(tmp_path / "photos"))

    before = digest()
    assert before == digest()
    (tmp_path / "photos" / "1.jpg").write_text("x")
    with_one = digest()
    (tmp_path / "photos" / "1.jpg").write_text("xy")
    assert len({before, with_one, digest()}) == 3


@pytest.mark.parametrize("text", ["a" * 300, "a" * 300 + "?samples=3", "photos/" + "b" * 5000])
def test_a_name_that_no_file_system_takes_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^the data '.{,200}' cannot be looked for: File name too long\n"):
        parse_data(text)
