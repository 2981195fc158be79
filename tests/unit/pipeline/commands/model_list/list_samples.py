"""Rows of a list of models for tests."""

from __future__ import annotations

from transload.pipeline.result.failure_kinds import FailureKind
from transload.pipeline.result.list_records import ModelRow, RowFailure, RowState, TargetRow
from transload.pipeline.result.schema import Status, Verdict


def failure(message: str, *, kind: FailureKind = FailureKind.TOOL, step: str = "onnx2tf", operator: str | None = None,
            target: str | None = "tflite") -> RowFailure:  # fmt: skip
    return RowFailure(kind, step, message, "write it otherwise", target, operator, log="logs/a.log")


def target(name: str = "onnx", status: Status = Status.VERIFIED) -> TargetRow:
    return TargetRow(name, status, None, ("torch.jit",), 131.4, 1e-7, "agrees to 131 dB", f"{name}/model.onnx", None)


def row(name: str, *failures: RowFailure, status: int = 0, state: RowState = RowState.DONE) -> ModelRow:
    verdict = {0: Verdict.PASS, 3: Verdict.INCONCLUSIVE}.get(status, Verdict.FAIL)
    done = state is RowState.DONE
    return ModelRow(
        name, f"zoo:{name}", None, state, f"digest of {name}", verdict if done else None, status if done else None,
        1.5, name, None, (target(),) if not failures else (), failures,
    )  # fmt: skip
