"""What a command works with: the settings of this machine, and the context that the stages of a run share."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...models.processors import core_count
from ..options.request import RunRequest
from ..progress.progress import Progress
from ..result.signing_keys import Signer, read_signer
from ..workers.engine import LocalExecutor
from ..workers.isolation import Limits
from ..workers.walls.sandbox import missing_walls

# Limits of reading a model file, unless the request sets its own.
INTAKE_S = 60.0  # on a busy machine, loading PyTorch alone takes up to 20 s of it
INTAKE_BYTES_PER_S = 50e6  # a larger file may take longer
INTAKE_MEMORY_BYTES = 2 << 30  # the libraries themselves take up to a third of it
INTAKE_MEMORY_PER_BYTE = 10  # of the file: readers hold it, its parts and what they check
MODEL_ANSWER_S = 25.0  # of opening a model file and its first call; more for a large one
MODEL_COMPILE_S = 300.0  # the same where the runtime is a compiler: Inductor takes a minute for ResNet-50 on two cores


@dataclass(frozen=True)
class Context:
    """A run: its request, its executor, its folder, and where its progress is shown."""

    request: RunRequest
    executor: LocalExecutor
    folder: Path  # runs/<id>
    progress: Progress
    device: str  # resolved: "cpu", "cuda" or "cuda:N"
    jobs: int  # workers side by side
    store_limit_bytes: int | None = None  # that the store is brought under at the end of the command
    runs: Path | None = None  # the folder that holds runs
    signer: Signer | None = None  # of the statements beside artifacts
    refused_logs: Path | None = None  # where the logs go if the command is refused; None: they stay where they are

    @property
    def doubts(self) -> tuple[str, ...]:
        """What speaks against every verdict of the run."""
        return doubts_of_walls(trust=self.request.model.trust)

    def limits(
        self, *, device: str = "cpu", loopback: bool = False, host: str | None = None, compiles: bool = False
    ) -> Limits:
        """Return the limits of a step. One that talks to a server may reach `host`, else the server that the request
        names. `compiles`: it may start the system's C++ compiler."""
        return Limits(
            memory_bytes=int(self.request.convert.step_memory_gb * 1e9),
            threads=max(1, core_count() // self.jobs),
            device=device,
            loopback=loopback,
            walled=not self.request.model.trust,
            compiles=compiles,
            host=host or (self.request.tfserving_url.partition(":")[0] if self.request.tfserving_url else None),
        )

    def convert_limits(self) -> Limits:
        """Return the limits of a conversion, from the request: nobody knows how long a foreign converter takes."""
        return replace(self.limits(), seconds=self.request.convert.step_seconds)

    def intake_limits(self, file_bytes: int, *, library_s: float = 0.0) -> Limits:
        """Return the limits of taking in a file or a folder of this size, with a library that takes `library_s` to
        load. What the request says of time or memory holds in place of them, and a trusted model has those of a
        conversion."""
        model, convert, limits = self.request.model, self.request.convert, self.convert_limits()
        if model.trust:
            return limits
        intake = intake_limits(limits, file_bytes)
        seconds = model.seconds if "seconds" in model.model_fields_set else intake.seconds + library_s
        memory = limits if "step_memory_gb" in convert.model_fields_set else intake
        return replace(limits, seconds=seconds, memory_bytes=memory.memory_bytes)

    def model_limits(self) -> Limits:
        """Return the limits of a user's code that makes a model and answers a few calls."""
        return replace(self.convert_limits(), seconds=self.request.model.seconds)

    def call_limits(self, file_bytes: int, *, compiles: bool = False) -> Limits:
        """Return the limits of a step that calls a model file of this size: those of any step, with little time
        for an answer unless the model is trusted or its runtime `compiles` it; or the time of the request."""
        model, limits = self.request.model, self.limits()
        if "seconds" in model.model_fields_set:
            return replace(limits, seconds=model.seconds)
        first_s = MODEL_COMPILE_S if compiles else MODEL_ANSWER_S
        answer_s = None if model.trust else first_s + file_bytes / INTAKE_BYTES_PER_S
        return replace(limits, answer_s=answer_s)

    def data_limits(self) -> Limits:
        """Return the limits of reading samples: an hour, as there may be very many."""
        return replace(self.limits(), seconds=3600.0)

    def training_limits(self, *, loopback: bool) -> Limits:
        """Return the limits of a training: a week, and all cores."""
        return replace(self.limits(device=self.device, loopback=loopback), seconds=7 * 86400.0, threads=core_count())


def intake_limits(limits: Limits, file_bytes: int) -> Limits:
    """Return `limits` with the time of taking in a file or a folder of this size, and no more memory than that takes:
    60 s and 2 GB, more for a large one."""
    return replace(
        limits,
        seconds=INTAKE_S + file_bytes / INTAKE_BYTES_PER_S,
        memory_bytes=min(INTAKE_MEMORY_BYTES + INTAKE_MEMORY_PER_BYTE * file_bytes, limits.memory_bytes),
    )


def doubts_of_walls(*, trust: bool) -> tuple[str, ...]:
    """Return a sentence where the kernel holds no worker, or not with both walls (docs/security.md)."""
    missing = missing_walls()
    if trust:
        return ("not sandboxed: --trust was given",)
    return (f"not sandboxed: there is no {' and no '.join(missing)} here (transload doctor)",) if missing else ()


STORE_VARIABLE = "TRANSLOAD_STORE"


@dataclass(frozen=True)
class LocalSettings:
    """The folders that a command works in, and its number of workers side by side."""

    store: Path = field(default_factory=lambda: Path(os.environ.get(STORE_VARIABLE) or ".transload"))
    runs: Path = Path("runs")
    jobs: int = field(default_factory=lambda: min(core_count(), 4))
    executor: str | None = None  # --executor; None: as the pipeline file has it, else local
    signer: Signer | None = None  # of the statements beside artifacts

    @staticmethod
    def with_defaults(
        store: Path | None,
        runs: Path | None = None,
        jobs: int | None = None,
        *,
        executor: str | None = None,
        sign_key: Path | None = None,
    ) -> LocalSettings:
        """Return the settings of a command line: the defaults where an option is None. `sign_key`: a private key.
        Raises BadRequest where that key cannot be used."""
        default, signer = LocalSettings(), read_signer(sign_key) if sign_key else None
        runs = runs or default.runs
        return LocalSettings(store or default.store, runs, jobs or default.jobs, executor, signer)
