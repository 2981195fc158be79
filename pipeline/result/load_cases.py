"""What is asked of a load measurement, as data: scenarios, rates, and the words of `--load`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ...models.errors import BadRequest

FORMS = "closed:1,2,4, constant:100, poisson:100,200, server:200@10ms, single-stream, multi-stream:8 or offline"
MOST_CONNECTIONS = 256  # of a closed loop, and samples of a query
MOST_REQUESTS = 2_000_000  # of one measurement: they are all kept
LOAD_SECONDS = 10.0  # of each measurement
_MOST_RATE = 1_000_000.0
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


class LoadScenario(StrEnum):
    """How requests arrive. The last four are MLPerf's (Reddi et al., MLPerf Inference Benchmark, 3.2)."""

    CLOSED = "closed"  # each connection sends its next request when it has the answer to the last one
    CONSTANT = "constant"  # at a rate, evenly spaced, whether answers come or not
    POISSON = "poisson"  # at a rate, as independent clients send
    SINGLE_STREAM = "single-stream"  # one query after the other
    MULTI_STREAM = "multi-stream"  # one query of several samples after the other
    SERVER = "server"  # Poisson, with a bound that the 99th percentile must keep
    OFFLINE = "offline"  # everything at once: only the throughput counts

    @property
    def is_open(self) -> bool:
        """Whether requests have an intended time of their own."""
        return self in {LoadScenario.CONSTANT, LoadScenario.POISSON, LoadScenario.SERVER}

    @property
    def needs_server(self) -> bool:
        """Whether it takes several connections, which a session in process does not have."""
        return self.is_open or self is LoadScenario.CLOSED

    @property
    def is_mlperf(self) -> bool:
        """Whether MLPerf's LoadGen has it."""
        return self in {
            LoadScenario.SINGLE_STREAM, LoadScenario.MULTI_STREAM, LoadScenario.SERVER, LoadScenario.OFFLINE
        }  # fmt: skip

    @property
    def quantile(self) -> float | None:
        """The percentile that the scenario is judged by, as a share; None where there is none."""
        if self is LoadScenario.OFFLINE:
            return None
        return 0.9 if self is LoadScenario.SINGLE_STREAM else 0.99


class LoadEngine(StrEnum):
    """What sends the requests and times them."""

    TRANSLOAD = "transload"
    LOADGEN = "loadgen"  # MLPerf's


@dataclass(frozen=True, slots=True)
class LoadCase:
    """One measurement: a scenario with its numbers."""

    scenario: LoadScenario
    concurrency: int | None = None  # closed: connections; multi-stream: samples per query
    rate_per_s: float | None = None  # that is intended
    bound_s: float | None = None  # of the 99th percentile (server)

    @property
    def text(self) -> str:
        """The word that `parse_load` reads: "closed:4", "server:200@10ms"."""
        value = self.concurrency if self.rate_per_s is None else f"{self.rate_per_s:g}"
        bound = "" if self.bound_s is None else f"@{self.bound_s * 1e3:g}ms"
        return f"{self.scenario}{'' if value is None else f':{value}'}{bound}"


def parse_load(texts: Iterable[str]) -> tuple[LoadCase, ...]:
    """Read `--load` and `load` of a pipeline file: "closed:1,2" is two cases. Each case is there once, in order.
    Raises BadRequest."""
    return tuple(dict.fromkeys(case for text in texts for case in _cases(text.strip())))


def _cases(text: str) -> list[LoadCase]:
    name, colon, values = text.partition(":")
    if name not in set(LoadScenario):
        raise BadRequest(f"{text!r} is no load", fix=f"use {FORMS}")
    scenario = LoadScenario(name)
    if scenario in {LoadScenario.SINGLE_STREAM, LoadScenario.OFFLINE}:
        if colon:
            raise BadRequest(f"{scenario} takes no number, got {text!r}", fix=f"write --load {scenario}")
        return [LoadCase(scenario)]
    bound_s = None
    if scenario is LoadScenario.SERVER:
        values, _, bound = values.partition("@")
        bound_s = _bound(text, bound)
    words = [word.strip() for word in values.split(",")]
    if scenario in {LoadScenario.CLOSED, LoadScenario.MULTI_STREAM}:
        return [LoadCase(scenario, concurrency=_count(scenario, word)) for word in words]
    return [LoadCase(scenario, rate_per_s=_rate(scenario, word), bound_s=bound_s) for word in words]


def _count(scenario: LoadScenario, word: str) -> int:
    if not word.isdecimal() or not 1 <= int(word) <= MOST_CONNECTIONS:
        noun = "connections" if scenario is LoadScenario.CLOSED else "samples of a query"
        fix = f"use whole numbers from 1 to {MOST_CONNECTIONS}, as in --load {scenario}:1,8"
        raise BadRequest(f"{scenario}: {word!r} is no number of {noun}", fix=fix)
    return int(word)


def _rate(scenario: LoadScenario, word: str) -> float:
    try:
        rate = float(word)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= _MOST_RATE or not math.isfinite(rate):
        example = "server:200@10ms" if scenario is LoadScenario.SERVER else f"{scenario}:100,200"
        fix = f"use requests a second, as in --load {example}"
        raise BadRequest(f"{scenario}: {word!r} is no rate", fix=fix)
    return rate


def _bound(text: str, word: str) -> float:
    match = _DURATION.fullmatch(word.strip())
    if not match or not float(match[1]):
        fix = "write rate and bound of the 99th percentile, as in --load server:200@10ms"
        raise BadRequest(f"{text!r} has no latency bound", fix=fix)
    return float(match[1]) * _SECONDS[match[2]]


def check_load(cases: Sequence[LoadCase], engines: Sequence[LoadEngine], seconds: float) -> None:
    """Check that every case is measured by one of the engines, and asks no more requests than can be kept.
    Raises BadRequest."""
    for case in cases:
        if LoadEngine.TRANSLOAD not in engines and not case.scenario.is_mlperf:
            fix = "use single-stream, multi-stream, server or offline, or leave --load-engine out"
            raise BadRequest(f"LoadGen has no scenario like {case.text}", fix=fix)
        if case.rate_per_s and case.rate_per_s * seconds > MOST_REQUESTS:
            fix = "use a lower rate, or fewer seconds (--load-seconds)"
            count = case.rate_per_s * seconds
            raise BadRequest(f"{case.text} for {seconds:g} s is {count:.0f} requests, above {MOST_REQUESTS}", fix=fix)
