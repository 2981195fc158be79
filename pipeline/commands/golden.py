"""Golden samples of an artifact: a few calls with the answers of its model, kept beside it and asked again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ...models.artifact import GOLDEN, read_artifact
from ...models.atomic_files import write_whole
from ...models.errors import SessionLost
from ...models.store import Stored, digest_of_json, size_of
from ...models.untrusted_files import read_plain
from ...serving.bundles.bundle_records import GoldenSamples
from ...serving.runtimes.runtime_table import RUNTIMES
from ..drift.drift_records import SessionOptions
from ..drift.golden_samples import GoldenFacts, golden_text, limit_of, read_golden
from ..drift.sessions import runtime_for
from ..options.request import read_request
from ..plan.context import Context, LocalSettings
from ..plan.model_argument import ModelRequest
from ..plan.router import TargetResult
from ..plan.run_inputs import RunInputs, load_model
from ..progress.progress import Progress
from ..show.card.card_records import Card
from ..workers.engine import Action
from ..workers.fork_server import framework_of
from ..workers.interpreters import interpreter_of
from .workspace import close_workers, new_run_context

_ANSWER = "transload.pipeline.drift.golden_samples:answer_golden"
_REPLAY = "transload.pipeline.drift.golden_samples:replay_golden"


def write_golden(context: Context, inputs: RunInputs, result: TargetResult, card: Card, folder: Path) -> None:
    """Write the golden samples of an artifact into `folder`: those that its check kept. Where its statement will be
    signed, the model is asked anew: who has written to the store cannot have changed these answers."""
    artifact = result.stored
    if artifact is None:
        return
    if context.signer is None or inputs.recorder is None:
        if result.checked is not None and (result.checked / GOLDEN).is_file():
            write_whole(folder / GOLDEN, read_plain(result.checked / GOLDEN))
        return
    signature, recorder = inputs.model.signature, inputs.recorder
    options = {name: recorder.options[name] for name in ("runtime", "settings", "threads") if name in recorder.options}
    folders = {"artifact": inputs.source, "data": inputs.data}
    stored = context.executor.perform(replace(recorder, name="golden", entry=_ANSWER, inputs=folders, options=options))
    calls = read_golden(stored.folder, signature, GoldenFacts.from_json(stored.facts).calls)
    limit = limit_of(
        read_artifact(artifact.folder).target.precision,
        [check.tolerance_db for check in card.checks],
        [check.sqnr_db for check in card.checks],
    )
    text = golden_text(GoldenSamples(calls, limit), signature)
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
