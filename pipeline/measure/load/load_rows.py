"""Rows of the result from the requests of a load measurement, and the file that keeps the requests (parent side).

load.npz holds four arrays for each row: `ARTIFACT|RUNTIME|CASE|ENGINE|intended`, `...|sent` and `...|done`, float64,
seconds after the start, NaN where a request was never sent, and `...|status`, uint8 (RequestStatus).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from ....models.array_file import read_arrays, write_arrays
from ....models.errors import BadRequest
from ...result.load_cases import LoadCase, LoadEngine
from ...result.schema import LoadRow
from ..bench.rounds import Pair
from ..bench.statistics import Load
from .load_records import LoadRecords
from .load_subject import LoadFacts
from .load_summary import LoadConditions, LoadFigures, doubts, figures


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """What a row says that the requests do not."""

    pair: Pair
    case: LoadCase
    engine: LoadEngine
    batch: int
    device: str  # that was asked for
    threads: int = 1
    server: Literal["embedded", "binary", "remote"] | None = None
    log: str | None = None
    note: str | None = None  # a doubt that every row of the subject has


@dataclass(frozen=True)
class LoadMeasurement:
    """The requests of one measurement, and what the worker said beside them."""

    records: LoadRecords
    facts: LoadFacts

    def figures(self, case: LoadCase) -> LoadFigures:
        """Return its figures, those that LoadGen itself says in place of ours."""
        own = figures(self.records, case, self.facts.samples, self.facts.connections)
        bound = own.early_stopping_s if self.facts.early_stopping_s is None else self.facts.early_stopping_s
        return replace(own, early_stopping_s=bound, valid=own.valid if self.facts.valid is None else self.facts.valid)


def load_row(
    target: LoadTarget, measured: LoadMeasurement, harness: LoadMeasurement | None, load: Load | None = None
) -> LoadRow:
    """Return the row of a measurement. `harness`: the same load on a model that computes nothing."""
    case = target.case
    summary = measured.figures(case)
    floor = harness.figures(case) if harness else None
    conditions = LoadConditions(
        connections=measured.facts.connections,
        retries=measured.facts.retries,
        load=load,
        # At an intended rate both give that rate.
        harness_per_s=floor.throughput_per_s if floor and not case.scenario.is_open else None,
    )
    return replace(
        failed_load_row(target, ""),
        device=measured.facts.device,
        **asdict(summary),
        harness_p50_s=floor.p50_s if floor else None,
        doubts=(
            *filter(None, [target.note]),
            *([] if harness else ["the cost of the harness could not be measured: read the log"]),
            *doubts(measured.records, summary, case, conditions),
        ),
    )


def failed_load_row(target: LoadTarget, why: str) -> LoadRow:
    """Return the row of a measurement that gave nothing: no numbers, one sentence."""
    case = target.case
    return LoadRow(
        artifact=target.pair[0],
        runtime=target.pair[1],
        server=target.server,
        device=target.device,
        threads=target.threads,
        batch=target.batch,
        scenario=case.scenario,
        engine=target.engine,
        concurrency=case.concurrency,
        rate_per_s=case.rate_per_s,
        bound_s=case.bound_s,
        seconds=0.0,
        requests=0,
        refused=0,
        lost=0,
        p50_s=None,
        p90_s=None,
        p99_s=None,
        p999_s=None,
        p50_ci95=None,
        p90_ci95=None,
        p99_ci95=None,
        p999_ci95=None,
        early_stopping_s=None,
        throughput_per_s=None,
        valid=None,
        harness_p50_s=None,
        late_p99_s=None,
        doubts=(why,),
        log=target.log,
    )


def read_measurement(path: Path, facts: LoadFacts) -> LoadMeasurement:
    """Read the requests that a worker wrote, and remove its file. Raises BadRequest where there are none."""
    records = LoadRecords.from_arrays(read_arrays(path))
    path.unlink()
    if not len(records):
        raise BadRequest("no request was sent", fix="measure longer (--load-seconds)")
    return LoadMeasurement(records, facts)


def write_load(path: Path, measured: Iterable[tuple[LoadTarget, LoadMeasurement]]) -> None:
    """Keep every request."""
    write_arrays(
        path,
        {
            f"{'|'.join((*target.pair, target.case.text, target.engine))}|{name}": array
            for target, measurement in measured
            for name, array in measurement.records.to_arrays().items()
        },
    )
