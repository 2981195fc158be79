"""transload's own checks, as a user runs them: `validate`, and the check inside `convert`."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmark_models import by_name
from build import Artifact, Builder
from located import names_line, names_operator

RUNTIMES = {"onnx": "onnxruntime", "torchscript": "torchscript", "saved-model": "tensorflow", "tflite": "tflite"}


@dataclass(frozen=True)
class Answer:
    """What a check said: "pass", "named" (a wrong function of a SavedModel is said to be not asked), "degraded" (NaN or
    infinities are lost), "fail", "inconclusive", or "error" where it was no verdict."""

    verdict: str
    reason: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return {verdict, reason, seconds}."""
        return {"verdict": self.verdict, "reason": self.reason, "seconds": round(self.seconds, 2)}


class Product:
    """transload's checks, over one executor whose frameworks stay loaded: importing them each time takes an hour."""

    def __init__(self, builder: Builder, frameworks: Sequence[str] = ("tensorflow", "torch")) -> None:
        self._builder, self._frameworks = builder, list(frameworks)
        self._executor: Any = None

    def validate(self, artifact: Artifact) -> Answer:
        """Run `transload validate ARTIFACT --against MODEL --input ... [--data ...] --runtime ...`."""
        import transload

        model = by_name()[artifact.model]

        def ask() -> tuple[str, str]:
            result = transload.validate(
                artifact.candidate, against=model.argument, inputs=self._builder.inputs(model),
                data=self._builder.data(model), runtimes=[RUNTIMES[artifact.form.partition(":")[0]]],
                store=self._builder.store, runs=self._builder.work / "runs", jobs=1,
            )  # fmt: skip
            reasons = [row.got for row in result.gate if str(row.verdict) != "pass"] or [row.got for row in result.gate]
            name = {"signature": "predict", "call": "__call__"}.get(artifact.route.partition(" ")[0])
            if name and not artifact.right and result.decided[0] == "pass" and name in json.dumps(result.document):
                return "named", name
            loses = result.decided[0] == "pass" and any(row.lost for row in result.drift)
            return "degraded" if loses else str(result.decided[0]), "; ".join(map(str, reasons))

        return self._timed(ask)

    def verify(self, artifact: Artifact) -> Answer:
        """Run the check that `transload convert` makes of what a route gives it. Its own copies have passed it."""
        if artifact.made_by_convert:
            return Answer("pass", "made by convert, and verified there", 0.0)
        words = {"verified": "pass", "wrong": "fail", "unverified": "inconclusive"}

        def ask() -> tuple[str, str]:
            status, reason = self._verify(artifact)
            return words.get(status, status), reason

        return self._timed(ask)

    def locate(self, artifact: Artifact, said: str) -> dict[str, Any]:
        """Run `transload locate` on a mutant; return its places, and whether the first one is where it is wrong.

        Of a copy that is wrong in float16 arithmetic alone, the operator that `validate` named, in `said`, is asked.
        """
        import transload

        model = by_name()[artifact.model]
        places: list[Any] = []

        def ask() -> tuple[str, str]:
            result = transload.locate(
                artifact.candidate, against=model.argument, inputs=self._builder.inputs(model),
                data=self._builder.data(model), store=self._builder.store, runs=self._builder.work / "runs", jobs=1,
            )  # fmt: skip
            places.extend(result.places)
            return str(result.decided[0]), "; ".join(f"{place.operator} {place.line}" for place in result.places)

        if "in float16 arithmetic" in said:
            is_named = any(f"({site.operator})" in said for site in artifact.sites)
            is_line = names_line(said, artifact.sites)
            located = Answer("fail", said, 0.0).to_json()
            return {"locate": located, "places": [], "located_operator": is_named, "located_source": is_line}
        answer = self._timed(ask)
        first = places[0] if places else None
        return {
            "locate": answer.to_json(),
            "places": [place.to_json() for place in places],
            "located_operator": first is not None and names_operator(first, artifact.form, artifact.sites),
            "located_source": names_line(first.line if first else "", artifact.sites),
        }

    def close(self) -> None:
        """Let go of the loaded frameworks."""
        if self._executor is not None:
            self._executor.close()
        self._executor = None

    def _timed(self, ask: Callable[[], tuple[str, str]]) -> Answer:
        """Ask with the warm executor. What is refused is an answer: a copy of other inputs fails."""
        from transload.models.errors import TransloadError
        from transload.pipeline.commands import locate, validate

        start = time.monotonic()
        warm: dict[str, Any] = {"new_run_context": self._context, "close_workers": lambda _: nullcontext()}
        try:
            with patch.multiple(validate, **warm), patch.multiple(locate, **warm):
                verdict, reason = ask()
        except TransloadError as error:
            self.close()
            verdict, reason = "error", error.what
        except Exception as error:  # noqa: BLE001  a crash of the check is no catch, and no end of the benchmark
            self.close()
            verdict, reason = "crash", f"{type(error).__name__}: {error}"
        return Answer(verdict, reason, time.monotonic() - start)

    def _context(self, *arguments: Any, **_shared: Any) -> Any:
        """Return a command's context over the executor that the first command made."""
        from transload.pipeline.commands.workspace import new_run_context

        context = new_run_context(*arguments)
        if self._executor is None:
            self._executor = context.executor
            self._executor.expect(self._frameworks, context.limits())
        return replace(context, executor=self._executor)

    def _verify(self, artifact: Artifact) -> tuple[str, str]:
        """Take the artifact in, record the reference as `convert` does, and run the step that it runs."""
        from transload.converters.steps import STEPS
        from transload.models.formats import parse_target
        from transload.models.signature import parse_input
        from transload.pipeline.drift.drift_records import CheckOptions, VerifyFacts
        from transload.pipeline.options.request import read_request
        from transload.pipeline.plan.constant_actions import extend_reference
        from transload.pipeline.plan.context import LocalSettings
        from transload.pipeline.plan.model_argument import ModelRequest, candidate_request
        from transload.pipeline.plan.route_actions import VerificationInputs, constants_of, verification
        from transload.pipeline.plan.run_inputs import batch_sizes, load_model, resolve_inputs
        from transload.pipeline.plan.run_plan import Route
        from transload.pipeline.progress.progress import Progress

        model, builder = by_name()[artifact.model], self._builder
        specs = tuple(map(parse_input, builder.inputs(model)))
        request = read_request(None, {"model": {"recipe": model.argument}})
        local = LocalSettings.with_defaults(builder.store, builder.work / "runs", 1)
        context = self._context(request, "verify", local, Progress(quiet=True))
        target = parse_target(artifact.form)
        step = next(step for step in STEPS if step.target == target)
        loaded = load_model(context, candidate_request(str(artifact.candidate), specs))
        inputs = resolve_inputs(context, ModelRequest(model.argument, specs, builder.data(model)), probes_only=True)
        basis = VerificationInputs(
            source=inputs.source, start=None, data=inputs.data, reference=inputs.reference,
            verify_options=CheckOptions(batches=batch_sizes(context, inputs.model)),
            sqnr_db=request.validate_.sqnr_db, code=inputs.model.code, root=inputs.model.root,
            limits=context.convert_limits(),
        )  # fmt: skip
        route = Route((step,))
        propose = constants_of(basis, route, loaded.stored)
        if extended := extend_reference(context.executor.perform, inputs.recorder, propose):
            options = replace(basis.verify_options, constants=extended.constants)
            basis = replace(basis, reference=extended.reference, verify_options=options)
        action = verification(basis, route, loaded.stored)
        facts = VerifyFacts.from_json(context.executor.perform(replace(action, name="verify")).facts)
        return facts.status, facts.reason


def revision() -> str:
    """Return the last commit that changed the product: what was measured."""
    root = Path(__file__).resolve().parents[2]
    command = ["git", "log", "-1", "--format=%h", "--", "models", "converters", "serving", "pipeline"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout.strip()
