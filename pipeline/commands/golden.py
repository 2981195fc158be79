"""Golden samples of a signed artifact: a few calls with the answers of its model, kept beside it and asked again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ...models.artifact import GOLDEN, read_artifact
from ...models.errors import SessionLost
from ...models.foreign_files import read_plain
from ...models.formats import Precision
from ...models.store import Stored, digest_of_json, size_of
from ...models.whole_files import write_whole
from ...serving.bundles.bundle_records import AnswerLimit, Dialect, GoldenSamples, golden_document
from ...serving.runtimes.runtime_table import RUNTIMES
from ..card.card_records import Card
from ..context import Context, LocalSettings
from ..drift.drift_records import SessionOptions
from ..drift.golden_samples import GoldenFacts, read_golden
from ..drift.rules import LEAST_SQNR_DB, MOST_MISMATCHES
from ..drift.sessions import runtime_for
from ..intake.model_argument import ModelRequest
from ..intake.run_inputs import RunInputs, load_model
from ..progress import Progress
from ..request import read_request
from ..workers.engine import Action
from ..workers.fork_server import framework_of
from ..workers.interpreters import interpreter_of
from .workspace import close_workers, new_run_context

_ANSWER = "transload.pipeline.drift.golden_samples:answer_golden"
_REPLAY = "transload.pipeline.drift.golden_samples:replay_golden"
_MARGIN_DB = 6.0  # a few samples may agree less well than all of them together


def write_golden(context: Context, inputs: RunInputs, artifact: Stored, card: Card, folder: Path) -> None:
    """Write the golden samples of an artifact into `folder`, where its statement will be signed: the answers of its
    model, which it has to give here, too."""
    if context.signer is None or inputs.recorder is None:
        return
    signature, recorder = inputs.model.signature, inputs.recorder
    options = {name: recorder.options[name] for name in ("runtime", "settings", "threads") if name in recorder.options}
    folders = {"artifact": inputs.source, "data": inputs.data}
    stored = context.executor.perform(replace(recorder, name="golden", entry=_ANSWER, inputs=folders, options=options))
    calls = read_golden(stored.folder, signature, GoldenFacts.from_json(stored.facts).calls)
    golden = GoldenSamples(calls, _limit_of(card, read_artifact(artifact.folder).target.precision))
    document = golden_document(golden, signature, signature, dialect=Dialect.V2, url="", path="")
    text = json.dumps(document) + "\n"
    try:
        _replay(context, artifact, text)
    except SessionLost as error:
        context.progress.note(f"{card.target} gets no golden samples: {error.what}")
    else:
        write_whole(folder / GOLDEN, text)


def replay_answers(folder: Path) -> str:
    """Ask an artifact its golden samples, in a worker and a store of its own; return how its answers differ, "" where
    they agree. Raises TransloadError where it cannot be asked."""
    text = read_plain(folder / GOLDEN).decode(errors="replace")
    with TemporaryDirectory(prefix="transload-verify-") as scratch:
        local = LocalSettings(Path(scratch, "store"), Path(scratch, "runs"))
        context = new_run_context(read_request(None, {}), "verify", local, Progress(quiet=True))
        with close_workers(context):
            loaded = load_model(context, ModelRequest(str(folder)))
            try:
                _replay(context, loaded.stored, text)
            except SessionLost as error:
                return error.what
    return ""


def _replay(context: Context, artifact: Stored, text: str) -> None:
    """Ask an artifact the samples of a golden.json. Raises SessionLost where it answers otherwise."""
    store, known = context.executor.store, read_artifact(artifact.folder)
    with store.workspace() as work:
        (work / "out").mkdir()
        (work / "out" / GOLDEN).write_text(text)
        golden = store.commit(digest_of_json(["golden", text]), work / "out", {}, 0.0, step="golden samples")
    runtime = RUNTIMES[runtime_for(known.target.format, known.flex)]
    interpreter = interpreter_of(runtime)
    context.executor.perform(
        Action(
            f"replay.{known.target.slug}",
            _REPLAY,
            inputs={"artifact": artifact, "golden": golden},
            options=SessionOptions(runtime=runtime.name).to_json(),
            requires=runtime.requires,
            python=interpreter.path,
            tools=interpreter.tools,
            framework=framework_of(runtime.requires),
            limits=context.call_limits(size_of(artifact.folder)),
        )
    )


def _limit_of(card: Card, precision: Precision) -> AnswerLimit:
    """Return how far the artifact's answers may lie from its model's: as they were allowed to, or as they did."""
    limits = [check.tolerance_db for check in card.checks if check.tolerance_db is not None]
    agreements = [check.sqnr_db - _MARGIN_DB for check in card.checks if check.sqnr_db is not None]
    least_db = min(LEAST_SQNR_DB[precision], *limits, *agreements, float("inf"))
    return AnswerLimit(least_db, 0.0 if precision is Precision.FP32 else MOST_MISMATCHES)
