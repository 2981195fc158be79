"""Changes of a candidate's runtime that may restore agreement: the smallest that does is the cure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...models.errors import TransloadError
from ..drift.rules import FAIL
from ..drift.sessions import open_session
from .diverging_call import DivergenceSearch, DivergingCall
from .locate_records import Cure


@dataclass(frozen=True)
class RuntimeChange:
    """A setting of a runtime with which it changes less of a model than by default."""

    words: str
    setting: str = ""  # that a user makes in code
    settings: Mapping[str, Any] = field(default_factory=dict)  # that the runtime's session is opened with


def _onnxruntime(words: str, level: str) -> RuntimeChange:
    setting = f"SessionOptions.graph_optimization_level = GraphOptimizationLevel.{level}"
    return RuntimeChange(words, setting, {"level": level})


# An answer that depends on the calls before agrees in a new session: then no setting is the cause.
_NEW_SESSION = RuntimeChange("in a new session")
# The largest change first: where it does not restore agreement, no smaller one is tried.
_CHANGES: Mapping[str, tuple[RuntimeChange, ...]] = {
    "onnxruntime": (
        _onnxruntime("without graph optimisation", "ORT_DISABLE_ALL"),
        _onnxruntime("with basic graph optimisation", "ORT_ENABLE_BASIC"),
        _onnxruntime("with extended graph optimisation", "ORT_ENABLE_EXTENDED"),
    ),
    "tflite": (
        RuntimeChange(
            "without XNNPACK",
            "Interpreter(experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)",
            {"kernels": "BUILTIN_WITHOUT_DEFAULT_DELEGATES"},
        ),
    ),
    "torchscript": (
        RuntimeChange(
            "without folded operators", "torch.jit.freeze(module, optimize_numerics=False)", {"optimise": False}
        ),
    ),
}


def find_cure(search: DivergenceSearch, diverging: DivergingCall, folder: Path, threads: int) -> Cure | None:
    """Return the smallest change of the runtime with which the artifact in `folder` agrees at the diverging call.
    None where the runtime has no setting to try."""
    runtime = search.check.runtime
    if runtime not in _CHANGES:
        return None
    cure, tried = Cure(agrees=False), []
    for change in (_NEW_SESSION, *_CHANGES[runtime]):
        tried.append(change.words)
        try:
            with closing(open_session(runtime, folder, threads=threads, settings=change.settings)) as session:
                again = search.ask_again(session, diverging)
        except TransloadError:  # it cannot be opened with this setting
            again = diverging
        agrees = again.result.verdict != FAIL
        if agrees:
            cure = Cure(agrees=True, change=change.words, setting=change.setting, agreement_db=again.agreement_db)
        if agrees == (change is _NEW_SESSION):
            break
    return replace(cure, tried=tuple(tried))
