"""The zoo's table: what counts as verified, what as evidence, how failures are told apart. No framework is loaded."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from transload.models.signature import parse_input

ZOO = Path(__file__).resolve().parents[3] / "benchmarks" / "zoo"
MODULES = ("catalogue", "delegated", "flow", "reduced", "report", "run", "table", "warm", "zoo_feeds")


@pytest.fixture(scope="module", autouse=True)
def zoo_on_path() -> Iterator[None]:
    """The scripts import each other by bare names; nothing of that stays behind."""
    before = list(sys.path)
    sys.path.insert(0, str(ZOO))
    yield
    sys.path[:] = before
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def table() -> ModuleType:
    return importlib.import_module("table")


@pytest.fixture
def catalogue() -> ModuleType:
    return importlib.import_module("catalogue")


@dataclass(frozen=True)
class Entry:
    name: str = "family/model"
    family: str = "family"


@dataclass(frozen=True)
class Tried:
    route: tuple[str, ...]
    status: str
    reason: str


@dataclass(frozen=True)
class Route:
    names: tuple[str, ...]


@dataclass(frozen=True)
class Made:
    route: Route | None
    tried: tuple[Tried, ...]
    seconds: float = 1.5


LOWERED = Made(Route(("export", "lowering")), (Tried(("export", "lowering"), "verified", "agrees to 120 dB"),))
GOOD = {"status": "verified", "reason": "agrees", "sqnr_db": 120.0}


def test_a_copy_that_agrees_at_every_size_is_verified_with_the_least_ratio(table: ModuleType) -> None:
    row = table.row_of(Entry(), "tflite", LOWERED, [GOOD, {**GOOD, "sqnr_db": 95.0}, {**GOOD, "sqnr_db": None}], 0.5)
    assert (row.status, row.sqnr_db, row.route) == ("verified", 95.0, ("export", "lowering"))


@pytest.mark.parametrize("status", ["wrong", "unverified"])
def test_one_size_that_disagrees_takes_the_verdict(table: ModuleType, status: str) -> None:
    bad = {"status": status, "reason": "at batch 3: no", "sqnr_db": 12.0}
    row = table.row_of(Entry(), "tflite", LOWERED, [GOOD, bad], 0.5)
    assert (row.status, row.reason) == (status, "at batch 3: no")


def test_answers_that_hardly_vary_are_no_evidence(table: ModuleType) -> None:
    row = table.row_of(Entry(), "tflite", LOWERED, [GOOD], 0.009)
    assert row.status == "unverified"
    assert "differ by 0.90% of their size" in row.reason


@pytest.mark.parametrize(
    ("statuses", "status", "reason"),
    [(("failed", "failed"), "refused", "reason 0"), (("failed", "wrong"), "wrong", "reason 0"),
     (("missing", "failed"), "refused", "reason 1")],
)  # fmt: skip
def test_a_target_that_no_route_reaches_is_wrong_where_a_copy_was_made(
    table: ModuleType, statuses: tuple[str, ...], status: str, reason: str
) -> None:
    tried = tuple(Tried((f"step {at}",), each, f"reason {at}") for at, each in enumerate(statuses))
    row = table.row_of(Entry(), "tflite", Made(None, tried), [], 0.5)
    assert (row.status, row.reason) == (status, reason)


def test_the_reason_is_of_the_route_that_came_furthest(table: ModuleType) -> None:
    tried = (
        Tried(("export", "lowering"), "wrong", "export: the ONNX file disagrees"),
        Tried(("trace", "lowering"), "failed", "Foo is not carried"),
    )
    row = table.row_of(Entry(), "tflite", Made(None, tried), [], 0.5)
    assert (row.status, row.reason) == ("refused", "Foo is not carried")


def test_a_row_survives_being_written(table: ModuleType) -> None:
    row = table.row_of(Entry(), "tflite", LOWERED, [GOOD], 0.5)
    assert table.Row.from_json(row.to_json()) == row


def test_what_is_published_names_no_folder_of_the_machine(table: ModuleType) -> None:
    row = table.Row("m", "f", "tflite", "refused", "no model./usr/lib/model.pt2: '/layer.0/Conv' at /usr/net.py:3")
    assert row.to_json()["reason"] == "no model.model.pt2: '/layer.0/Conv' at net.py:3"


def calls(*values: Any) -> list[dict[str, Any]]:
    return [{"y": np.asarray(value, np.float32)} for value in values]


def test_variation_is_the_spread_between_samples_as_a_share_of_the_size(table: ModuleType) -> None:
    assert table.variation(calls([3.0, 4.0], [3.0, 4.0])) == 0.0
    assert table.variation(calls([1.0, -1.0], [-1.0, 1.0])) == pytest.approx(1.0)
    assert table.variation(calls([100.0], [101.0])) == pytest.approx(0.5 / 100.5, rel=1e-3)
    assert table.variation(calls([0.0], [0.0])) == 0.0


def test_variation_is_of_the_output_that_varies_most(table: ModuleType) -> None:
    both = [{"still": np.ones(2), "moving": np.full(2, sign)} for sign in (1.0, -1.0)]
    assert table.variation(both) == pytest.approx(1.0)


def test_shapes_that_differ_are_variation_enough(table: ModuleType) -> None:
    assert table.variation(calls([1.0], [1.0, 1.0])) == 1.0


def test_failures_of_one_cause_are_one_group(table: ModuleType) -> None:
    def row(model: str, reason: str, status: str = "refused") -> Any:
        return table.Row(model, "f", "tflite", status, reason)

    rows = [
        row("a", "Foo of node_Foo_12 has no kernel for [1, 2] (logs/x.log)"),
        row("b", "Foo of node_gelu_7 has no kernel for [3, 4] (logs/y.log)"),
        row("c", "Bar is not carried"),
        row("d", "", "verified"),
    ]
    assert [[each.model for each in members] for _, members in table.causes(rows)] == [["a", "b"], ["c"]]


def test_the_share_counts_every_model_of_a_column(table: ModuleType) -> None:
    statuses = ("verified", "wrong", "refused", "refused")
    rows = [table.Row(f"m{at}", "f", "tflite", status, "") for at, status in enumerate(statuses)]
    other = table.Row("m9", "f", "saved-model", "verified", "")
    assert table.share_verified([*rows, other], "tflite") == 0.25
    assert table.share_verified([], "tflite") == 0.0


@pytest.mark.parametrize(
    ("again", "status", "code", "wanted"),
    [("failed", "wrong", "new", True), ("failed", "wrong", "old", False), ("failed", "verified", "new", False),
     ("old", "verified", "new", True), ("old", "verified", "old", False), ("all", "verified", "old", True),
     ("never", "wrong", "new", False)],
)  # fmt: skip
def test_what_is_run_again(table: ModuleType, again: str, status: str, code: str, wanted: bool) -> None:
    run = importlib.import_module("run")
    row = table.Row("m", "f", "tflite", status, "", code="old")
    assert run.is_wanted(row, again, code) is wanted
    assert run.is_wanted(None, again, code)


def test_a_cell_says_wrong_loudly_and_never_decibels_of_what_is_not_verified(table: ModuleType) -> None:
    report = importlib.import_module("report")
    assert report.cell(table.Row("m", "f", "tflite", "wrong", "", sqnr_db=20.0)) == "**wrong**"
    assert report.cell(table.Row("m", "f", "tflite", "verified", "", sqnr_db=121.4, seconds=2.04)) == "121 dB, 2.0 s"
    assert report.cell(table.Row("m", "f", "tflite", "verified", "", seconds=1)) == "exact, 1.0 s"
    assert report.cell(None) == "not run"


def test_the_page_counts_and_explains(table: ModuleType) -> None:
    report = importlib.import_module("report")
    rows = [
        table.Row("a", "f", "onnx", "verified", ""),
        table.Row("b", "f", "onnx", "wrong", "torch.onnx-dynamo: at batch 1: no"),
        table.Row("a", "f", "saved-model", "verified", "", sqnr_db=120.0, seconds=1.0),
        table.Row("b", "f", "saved-model", "refused", "no | kernel\nfor it"),
    ]
    page = report.page(rows)
    assert "| SavedModel | 2 | 1 | 0 | 1 | 0 | 50.0% | 100.0% |" in page
    assert "- b, SavedModel: refused: no / kernel for it" in page


def test_full_int8_is_a_section_of_its_own_and_no_part_of_the_totals(table: ModuleType) -> None:
    report = importlib.import_module("report")
    counted = {"operators": 9, "float": {"MEAN": 2, "RSQRT": 3}, "left": {}}
    rows = [
        table.Row("a", "f", "saved-model", "verified", "", sqnr_db=120.0, seconds=1.0),
        table.Row("a", "f", "tflite:int8", "verified", "", sqnr_db=31.2, counted=counted),
        table.Row("b", "f", "tflite:int8", "wrong", "agrees to 6 dB", sqnr_db=6.1, counted={**counted, "float": {}}),
        table.Row("c", "f", "tflite:int8", "refused", "no kernel"),
    ]
    page = report.page(rows)
    assert "| a | verified | 31 | 9 | 5 (RSQRT, MEAN) | 0 |" in page
    assert "| b | **wrong**: agrees to 6 dB | 6 | 9 | 0 | 0 |" in page
    assert "3 of 3 models were run: 2 run under XNNPACK, 2 of them with every operator its own; 1 are verified" in page
    assert "| c | not run" not in page
    assert "## Full int8" not in report.page(rows[:1])


def test_a_delegate_took_what_lies_between_its_inputs_and_outputs() -> None:
    delegated = importlib.import_module("delegated")

    def operator(name: str, inputs: list[int], outputs: list[int]) -> dict[str, Any]:
        return {"op_name": name, "inputs": np.array(inputs), "outputs": np.array(outputs)}

    shape, first, second, pool = (
        operator("SHAPE", [0], [1]), operator("CONV_2D", [0, 9], [2]), operator("ADD", [2, 0], [3]),
        operator("AVERAGE_POOL_2D", [3, 1], [4]),
    )  # fmt: skip
    last = operator("SOFTMAX", [4], [5])
    taken = [operator("DELEGATE", [0, 9], [3]), operator("DELEGATE", [4], [5])]
    assert delegated.left_by_delegates([shape, first, second, pool, last, *taken]) == [shape, pool]
    assert delegated.left_by_delegates([first, second]) == [first, second]


def test_the_zoo_is_as_large_and_as_mixed_as_it_says(catalogue: ModuleType) -> None:
    entries = catalogue.entries()
    names = [entry.name for entry in entries]
    assert len(names) == len(set(names)) >= 120
    families = {entry.family for entry in entries}
    assert families == {
        "pictures", "sequences", "sound", "tables and graphs", "transformers", "packaged", "torchvision", "timm"
    }  # fmt: skip
    assert sum(entry.family == "timm" for entry in entries) >= 40


def test_every_entry_can_be_fed_at_every_size(catalogue: ModuleType) -> None:
    for entry in catalogue.entries():
        specs = [(parse_input(text), draw) for text, draw in entry.inputs.items()]
        assert all(spec.shape[0] == "batch" for spec, _ in specs), entry.name
        if any(axis in {224, 240, 256} for spec, _ in specs for axis in spec.shape):
            continue  # like the others, and a large array
        for sizes in entry.sizes:
            for spec, draw in specs:
                shape = tuple(axis if isinstance(axis, int) else {**sizes, "batch": 2}[axis] for axis in spec.shape)
                assert draw(np.random.default_rng(0), shape).shape == shape, entry.name
