"""The command `bundle`: write what a serving system expects of an artifact, with golden samples and their check."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...models.artifact import read_artifact
from ...models.errors import BadRequest
from ...models.formats import Precision
from ...serving.bundles.bundle_folder import write_bundle_folder
from ...serving.bundles.bundle_records import AnswerLimit, BundleSource, GoldenSamples, System
from ...serving.bundles.systems import SYSTEMS, bundle_files, check_limit, check_taken
from ...serving.runtimes.runtime_table import RUNTIMES
from ...serving.runtimes.tuning_file import bound_batch, tuning_document
from ..drift.drift_records import SessionOptions
from ..drift.golden_samples import GoldenFacts, read_golden
from ..drift.rules import LEAST_SQNR_DB, MOST_MISMATCHES
from ..drift.sessions import runtime_for
from ..options.request import RunRequest
from ..plan.context import Context, LocalSettings
from ..plan.data_step import data_argument
from ..plan.loaded_model import LoadedModel, require_runtime
from ..plan.model_argument import ModelRequest
from ..plan.run_inputs import load_model, resolve_data
from ..progress.progress import Progress
from ..result.schema import Status
from ..result.verified_artifact import VerifiedArtifact, find_artifact
from ..workers.engine import Action
from ..workers.fork_server import framework_of
from .workspace import check_writable, close_workers, new_run_context, report_disk_full

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_GOLDEN = "transload.pipeline.drift.golden_samples:answer_golden"


@dataclass(frozen=True)
class BundleResult:
    """A bundle that was written."""

    folder: Path
    system: System
    target: str
    artifact: Path
    status: Status | None  # of the artifact in its run
    name: str
    calls: int
    samples: str  # where the inputs come from: "data", "run" or "random"
    tolerance: AnswerLimit
    check: str  # the command that checks an endpoint

    @property
    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {
            "folder": str(self.folder), "system": str(self.system), "target": self.target,
            "artifact": str(self.artifact), "status": self.status and str(self.status), "name": self.name,
            "calls": self.calls, "samples": self.samples, "tolerance": asdict(self.tolerance), "check": self.check,
        }  # fmt: skip


def bundle(
    request: RunRequest,
    place: Path,
    local: LocalSettings,
    progress: Progress,
    *,
    system: System,
    out: Path,
    name: str = "model",
    version: int = 1,
    data: str | None = None,
    max_batch: int | None = None,
) -> BundleResult:
    """Write the bundle of an artifact, or of the best one in a run's folder, to the new folder `out`.
    The golden samples are those of `data`, else of the artifact's run, else random ones that fit its signature.
    `max_batch` limits the rows of a request, where the system gathers requests and needs a limit.
    Raises BadRequest where the system does not take the artifact or the limit, or `out` holds something."""
    if not _NAME.fullmatch(name):
        raise BadRequest(f"the name {name!r} fits no URL", fix="name it with letters, digits, '-', '_' and '.'")
    verified = _find(place, system)
    _check_free(out)
    context = new_run_context(request, f"bundle-{system}", local, progress)
    with report_disk_full(out), close_workers(context):
        with progress.stage("model"):
            loaded = load_model(context, ModelRequest(str(verified.folder)))
        samples = "data" if data else "run" if verified.samples else "random"
        with progress.stage("golden samples"):
            golden = _answer(context, loaded, verified, data)
        source = BundleSource(
            read_artifact(loaded.stored.folder), golden, name, version,
            tuning_document(verified.folder), max_batch, bound_batch(verified.folder),
        )  # fmt: skip
        check_limit(source, system)
        with progress.stage("bundle"):
            write_bundle_folder(out, bundle_files(source, system))
    return BundleResult(
        out, system, str(source.artifact.target), verified.folder, verified.status, name, len(golden.calls), samples,
        golden.tolerance, f"{out}/check.sh {SYSTEMS[system].url}",
    )  # fmt: skip


def _find(place: Path, system: System) -> VerifiedArtifact:
    """Return the artifact that is bundled. Raises BadRequest where the system does not take it."""
    verified = find_artifact(place, SYSTEMS[system].takes)
    artifact = read_artifact(verified.folder)
    check_taken(str(verified.folder), artifact.target.format, system, flex=bool(artifact.flex))
    require_runtime(runtime_for(artifact.target.format))
    return verified


def _check_free(out: Path) -> None:
    """Raise BadRequest where the folder of the bundle holds something, or cannot be made."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadRequest(f"{out} is there already", fix="name a new folder with --out, or remove this one")
    check_writable(out.absolute().parent)


def _answer(context: Context, loaded: LoadedModel, verified: VerifiedArtifact, data: str | None) -> GoldenSamples:
    """Let the artifact answer its golden samples, on the CPU."""
    artifact = read_artifact(loaded.stored.folder)
    argument = data_argument(context, data or (str(verified.samples) if verified.samples else None))
    runtime = RUNTIMES[runtime_for(artifact.target.format)]
    stored = context.executor.perform(
        Action(
            "golden",
            _GOLDEN,
            inputs={"artifact": loaded.stored, "data": resolve_data(context, loaded, argument)},
            options=SessionOptions(runtime=runtime.name).to_json(),
            requires=runtime.requires,
            framework=framework_of(runtime.requires),
            limits=context.limits(),
        )
    )
    precision = artifact.target.precision
    floor_db = LEAST_SQNR_DB[precision] if verified.least_db is None else verified.least_db
    most_unequal = 0.0 if precision is Precision.FP32 else MOST_MISMATCHES
    calls = read_golden(stored.folder, artifact.signature, GoldenFacts.from_json(stored.facts).calls)
    return GoldenSamples(calls, AnswerLimit(floor_db, most_unequal))
