"""transload's own checks, as a user runs them: `validate`, and the check inside `convert`."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmark_models import by_name
from build import Artifact, Builder

RUNTIMES = {"onnx": "onnxruntime", "torchscript": "torchscript", "saved-model": "tensorflow", "tflite": "tflite"}


@dataclass(frozen=True)
class Answer:
    """What a check said: "pass", "fail", "inconclusive", or "error" where it was no verdict."""

    verdict: str
    reason: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return {verdict, reason, seconds}."""
        return {"verdict": self.verdict, "reason": self.reason, "seconds": round(self.seconds, 2)}


def validate(builder: Builder, artifact: Artifact) -> Answer:
    """Run `transload validate ARTIFACT --against MODEL --input ... [--data ...] --runtime ...`."""
    import transload
    from transload.models.errors import TransloadError

    model = by_name()[artifact.model]
    start = time.monotonic()
    try:
        result = transload.validate(
            artifact.candidate, against=model.argument, inputs=builder.inputs(model), data=builder.data(model),
            runtimes=[RUNTIMES[artifact.form]], store=builder.store, runs=builder.work / "runs", jobs=1,
        )  # fmt: skip
    except TransloadError as error:
        return Answer("fail" if "takes" in error.what else "error", error.what, time.monotonic() - start)
    reasons = [row.got for row in result.gate if str(row.verdict) != "pass"] or [row.got for row in result.gate]
    return Answer(str(result.decided[0]), "; ".join(map(str, reasons)), time.monotonic() - start)


def verify(builder: Builder, artifact: Artifact) -> Answer:
    """Run the check that `transload convert` makes of what a route has given it. Its own copies have passed it."""
    from transload.models.errors import TransloadError

    if artifact.made_by_convert:
        return Answer("pass", "made by convert, and verified there", 0.0)
    start = time.monotonic()
    try:
        status, reason = _verify(builder, artifact)
    except TransloadError as error:
        status, reason = "error", error.what
    words = {"verified": "pass", "wrong": "fail", "unverified": "inconclusive"}
    return Answer(words.get(status, status), reason, time.monotonic() - start)


def _verify(builder: Builder, artifact: Artifact) -> tuple[str, str]:
    """Take the artifact in, record the reference as `convert` does, and run the step that it runs."""
    from transload.converters.steps import STEPS
    from transload.models.formats import parse_target
    from transload.models.signature import parse_input
    from transload.pipeline.commands.workspace import close_workers, new_run_context
    from transload.pipeline.context import LocalSettings
    from transload.pipeline.drift.drift_records import CheckOptions, VerifyFacts
    from transload.pipeline.intake.model_argument import ModelRequest, candidate_request
    from transload.pipeline.intake.run_inputs import batch_sizes, load_model, resolve_inputs
    from transload.pipeline.plan.route_actions import VerificationInputs, verification
    from transload.pipeline.plan.run_plan import Route
    from transload.pipeline.progress import Progress
    from transload.pipeline.request import read_request

    model = by_name()[artifact.model]
    specs = tuple(map(parse_input, builder.inputs(model)))
    request = read_request(None, {"model": {"recipe": model.argument}})
    local = LocalSettings.with_defaults(builder.store, builder.work / "runs", 1)
    context = new_run_context(request, "verify", local, Progress(quiet=True))
    target = parse_target(artifact.form)
    step = next(step for step in STEPS if step.target == target)
    with close_workers(context):
        loaded = load_model(context, candidate_request(str(artifact.candidate), specs))
        against = ModelRequest(model.argument, specs, builder.data(model))
        inputs = resolve_inputs(context, against, probes_only=True)
        basis = VerificationInputs(
            source=inputs.source, start=None, data=inputs.data, reference=inputs.reference,
            verify_options=CheckOptions(batches=batch_sizes(context, inputs.model)),
            sqnr_db=request.validate_.sqnr_db, code=inputs.model.code, root=inputs.model.root,
            limits=context.convert_limits(),
        )  # fmt: skip
        action = verification(basis, Route((step,)), loaded.stored)
        facts = VerifyFacts.from_json(context.executor.perform(replace(action, name="verify")).facts)
    return facts.status, facts.reason


def revision() -> str:
    """Return the revision of the product that was measured."""
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run(["git", "log", "-1", "--format=%h"], cwd=root, capture_output=True, text=True, check=False)
    return ran.stdout.strip()
