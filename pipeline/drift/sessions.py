"""Open the test set of a drift job, and a session of any runtime by its row in the table; try it with other samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ...models.artifact import read_artifact
from ...models.dataset import TEST, Dataset, read_dataset
from ...models.errors import BadRequest, TransloadError
from ...models.extensible_table import load_entry
from ...models.formats import Format
from ...models.job import Job
from ...models.probes.accepted_values import ChosenValues, replace_values
from ...models.probes.feeds import make_feeds
from ...models.probes.probe_set import PROBE_SAMPLES, Probe
from ...models.signature import Array, Signature, TensorSpec
from ...serving.runtimes.runtime_table import RUNTIMES
from ...serving.runtimes.tuning_space import RuntimeSettings
from ...serving.session import Session
from .drift_records import SessionOptions

FLEX = "tflite-flex"  # of a TFLite file that holds TensorFlow's operators
ANSWER_S = 60.0  # how long a server may take for one call


def runtime_for(form: Format, flex: Sequence[str] = ()) -> str:
    """Return the runtime that an artifact is checked in, by its format and the operators that it needs Flex for."""
    return FLEX if flex else form.spec.runtime


def default_runtime(folder: Path) -> str:
    """Return the runtime that the artifact in `folder` is checked in."""
    artifact = read_artifact(folder)
    return runtime_for(artifact.target.format, artifact.flex)


def open_session(
    runtime: str,
    folder: Path,
    *,
    device: str = "cpu",
    threads: int = 1,
    services: Mapping[str, str] | None = None,
    model: str | None = None,
    signature: Signature | None = None,
    settings: Mapping[str, Any] | None = None,
    answer_s: float = ANSWER_S,
) -> Session:
    """Open a session of `runtime` over the artifact or source in `folder`; `settings` are the runtime's own
    (serving/runtimes/tuning_space.py).

    A served runtime talks to the address in `services` of its service, and asks for `model` there. `signature` is that
    of a model without an artifact here; `answer_s` is how long a server may take for one call.

    Raises BadRequest where there is no such runtime, setting or address, and what the runtime itself raises.
    """
    if runtime not in RUNTIMES:
        raise BadRequest(f"no runtime is called {runtime!r}", fix=f"use one of {', '.join(RUNTIMES)}")
    row, chosen = RUNTIMES[runtime], RuntimeSettings(runtime, settings or {})
    entry: Callable[..., Session] = load_entry(row.entry)
    if not row.served:
        return entry(folder, device, chosen.threads(threads), **chosen.keywords)
    if row.service not in (services or {}) or not model:
        raise BadRequest(
            f"{runtime} needs the address of a {row.service} server and the name of a model on it",
            fix="start one with `transload serve`, or name a running one with --tfserving-url",
        )
    signature = signature or read_artifact(folder).signature
    return entry((services or {})[row.service], model, signature, answer_s)


def open_for(job: Job, which: str, runtime: str, options: SessionOptions) -> Session:
    """Open a session over inputs[`which`] of a job, by its options and services."""
    return open_session(
        runtime,
        job.inputs[which],
        device=options.device,
        threads=options.threads,
        services=job.services,
        model=options.model,
        signature=options.signature,
        settings=options.settings,
    )


def read_test_set(job: Job, inputs: Sequence[TensorSpec]) -> Dataset:
    """Read the test set in inputs["data"] of a job, for a model of these inputs.
    Raises BadRequest where it is empty."""
    path: Path = job.inputs["data"] / TEST
    data = read_dataset(path, inputs)
    if not len(data):
        raise BadRequest(f"{path} holds no samples", fix="give at least one")
    return data


def batches_of(options: SessionOptions) -> tuple[int, ...]:
    """Return the batch sizes of a job's probes.

    Raises BadRequest where one is below 1.
    """
    if not options.batches or min(options.batches) < 1:
        raise BadRequest(f"probe batches are 1 or more, got {list(options.batches)}", fix="use --batch 1,2,5")
    return options.batches


@dataclass(frozen=True)
class SampleTrial:
    """A session, and the samples that it was asked first."""

    session: Session
    data: Dataset

    def accepts_sizes(self, batch: int, sizes: Mapping[str, int]) -> bool:
        """Return whether there is an answer to the first samples at these sizes."""
        probe = Probe(batch, sizes)
        return self._answers(probe, islice(probe.rows(self.data), 1), self.data)

    def accepts_values(self, probe: Probe, values: ChosenValues) -> bool:
        """Return whether there is an answer to the first samples with these numbers."""
        samples = self.data.rows(0, PROBE_SAMPLES)
        data = Dataset(replace_values(samples.inputs, values), samples.labels)
        return self._answers(probe, probe.rows(data), data)

    @property
    def tables(self) -> Sequence[int]:
        """How many rows the tables of the model may have; empty where it cannot tell."""
        rows: Sequence[int] = getattr(self.session, "table_rows", ())
        return rows

    def _answers(self, probe: Probe, rows: Iterable[Array], data: Dataset) -> bool:
        try:
            for chosen in rows:
                self.session.run(make_feeds(data, chosen, self.session.signature, probe.sizes))
        except TransloadError:
            return False
        return True
