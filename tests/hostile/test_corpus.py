"""The corpus of hostile files: how much it covers, and its cases that no worker has to see, through their commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Ran
from .corpus.build import cases
from .corpus.case import Case, Outcome, Place

CASES = {case.name: case for case in cases("plain")}


def test_the_corpus_covers_every_format_that_needs_no_framework_to_write() -> None:
    formats = Counter(name.partition("/")[0] for name in CASES)
    assert len(CASES) >= 300
    wanted = {
        "onnx", "npz", "npy", "csv", "parquet", "images", "safetensors", "ckpt", "json", "artifact.json", "run.json",
        "pipeline.toml", "hf", "model_config_list", "batching", "golden.json", "serve",
    }  # fmt: skip
    assert wanted <= set(formats)
    assert len(CASES) == sum(formats.values())


def run(case: Case, folder: Path, transload: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> Ran:
    place = Place(folder / "case")
    place.make()
    case.build(place)
    monkeypatch.chdir(place.here)
    ran = transload(*case.words)
    assert not place.marker.exists()
    return ran


SLOW = (
    "a list of a million targets",
    "a key of 10,000 parts",
    "a header of 10,000 parts",
    "100,000 models",
    "a data folder outside",
    "weights outside",
    "a million sizes",
)
READ_BY_THE_COMMAND = [
    name
    for name, case in CASES.items()
    if name.startswith(("artifact.json/", "run.json/", "pipeline.toml/", "model_config_list/", "batching/"))
    and case.outcome is Outcome.REFUSED
    and not name.endswith(SLOW)
    and not any(part in name for part in (", by ", "payload"))
]


@pytest.mark.parametrize("name", READ_BY_THE_COMMAND)
def test_a_record_is_refused_in_one_sentence(
    name: str, tmp_path: Path, transload: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, err = run(CASES[name], tmp_path, transload, monkeypatch)
    assert (status, out) == (2, "")
    first, second = err.splitlines()
    assert first.startswith("error: ")
    assert second.startswith("  fix: ")
