"""The search for the integers that a model answers to ends in time, whatever the model does."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from transload.models.dataset import Dataset
from transload.models.errors import SessionLost
from transload.models.probes.integer_range import IntegerRangeSearch, peak_bytes
from transload.models.probes.probe_set import Probe
from transload.models.probes.stress_values import IntegerRange
from transload.models.signature import Array, parse_input


def test_integers_that_make_a_model_slow_are_not_tried_further() -> None:
    now, calls = [0.0], []

    def ask(probe: Probe, rounded: Sequence[str] = ()) -> Iterator[dict[str, Array]]:
        assert not rounded
        for _ in range(5):
            now[0] += 2.0**probe.bits / 1000
            calls.append(probe.bits)
            yield {"y": np.zeros(5)}

    inputs = (parse_input("n=int64[]"),)
    search = IntegerRangeSearch(inputs, 1, [{"y": np.zeros(5)}], ask, clock=lambda: now[0])
    assert search.find_widest() == {"n": IntegerRange(6, 6)}
    assert [probe.bits for probe, _ in search.levels] == [3, 6]
    assert calls.count(10) == 2  # once more, for it may be the machine; and not the calls after the slow one


def test_integers_that_take_memory_are_not_tried_further() -> None:
    held, calls = [0], []

    def ask(probe: Probe, rounded: Sequence[str] = ()) -> Iterator[dict[str, Array]]:
        held[0] = max(held[0], 4 * 2**probe.bits)
        calls.append(probe.bits)
        yield {"y": np.full(5, len(rounded))}  # it makes no floats of them

    search = IntegerRangeSearch((parse_input("n=int64[]"),), 1, [{"y": np.zeros(5)}], ask, peak=lambda: held[0])
    assert search.find_widest() == {"n": IntegerRange(20, 20)}
    assert max(calls) == 26


def test_the_peak_of_memory_is_what_the_system_says() -> None:
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    roughly = 16 << 20  # the kernel counts by processor
    assert resident - roughly < peak_bytes() < most + roughly


def test_a_search_ends_whatever_the_model_says() -> None:
    tries = 0

    def ask(probe: Probe, rounded: Sequence[str] = ()) -> list[dict[str, Array]]:
        nonlocal tries
        tries += 1
        raise SessionLost("no", fix="")

    inputs = tuple(parse_input(f"x{at}=int64[batch]") for at in range(200))
    assert set(IntegerRangeSearch(inputs, 1, [{"y": np.zeros(5)}], ask).find_widest().values()) == {IntegerRange(0, 2)}
    assert tries == 60


def test_a_search_in_a_slow_model_ends_after_two_minutes() -> None:
    now = [0.0]

    def ask(probe: Probe, rounded: Sequence[str] = ()) -> Iterator[dict[str, Array]]:
        now[0] += 50
        yield {"y": np.zeros(5)}

    search = IntegerRangeSearch((parse_input("x=int64[batch]"),), 5, [{"y": np.zeros(5)}], ask, clock=lambda: now[0])
    assert search.find_widest() == {"x": IntegerRange(10, 10)}


def search_of_table(rows: int, tables: tuple[int, ...], *, from_the_end: bool) -> tuple[IntegerRangeSearch, list[int]]:
    """Return a search in a model that looks up `rows` rows, and the largest integer of each call."""
    data, calls = Dataset({"ids": np.random.default_rng(0).integers(0, 4, (20, 5))}), list[int]()

    def ask(probe: Probe, _: Sequence[str] = ()) -> Iterator[dict[str, Array]]:
        filled = probe.of(data)
        for chosen in probe.rows(filled):
            ids = filled.inputs["ids"][chosen]
            calls.append(int(ids.max()))
            if ids.max() >= rows or ids.min() < (-rows if from_the_end else 0):
                raise SessionLost("index out of range in self", fix="")
            yield {"y": np.zeros(5)}

    inputs = (parse_input("ids=int64[batch,5]"),)
    return IntegerRangeSearch(inputs, 5, [{"y": np.zeros(5)}], ask, tables=tables), calls


@pytest.mark.parametrize("rows", [5, 6, 64, 65, 100, 1000, 30522])
@pytest.mark.parametrize("known", [False, True])
def test_a_table_is_asked_up_to_its_last_row(rows: int, known: bool) -> None:
    search, calls = search_of_table(rows, (768, rows, 2) if known else (), from_the_end=False)
    (ids,) = search.find_widest().values()
    assert ids.ends == (0, rows - 1)
    assert rows - 1 in calls
    assert len(calls) < 30
    assert not known or rows < 1000 or len(calls) < 12  # no halving: the tables tell the end
    probe, answers = search.levels[-1]
    assert probe.reach == {"ids": ids}
    assert len(answers) == {65: 3, 100: 4}.get(rows, len(answers)), "as many samples as hold every row, up to 20"


def test_a_table_that_counts_from_the_end_is_asked_to_both_ends() -> None:
    search, _ = search_of_table(100, (), from_the_end=True)
    (ids,) = search.find_widest().values()
    assert (ids.ends, str(ids)) == ((-100, 99), "from -100 to 99")
