"""The modules that decide verdicts and exit statuses, each with the unit tests that guard it, and the mutants of them
that no test can tell from the original."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_UNIT = "tests/unit/pipeline"
_STATUSES = (f"{_UNIT}/commands/test_exit_statuses.py",)


@dataclass(frozen=True)
class Guarded:
    """The tests of a module, and the functions that decide in it (all where none is named)."""

    tests: tuple[str, ...]
    functions: tuple[str, ...] = ()


MODULES: Mapping[str, Guarded] = {
    "pipeline/result/gate.py": Guarded((f"{_UNIT}/result/test_gate.py",)),
    "pipeline/result/release_limits.py": Guarded(
        (f"{_UNIT}/result/test_release_limits.py", f"{_UNIT}/result/test_gate.py")
    ),
    "pipeline/result/compare/judge.py": Guarded((f"{_UNIT}/result/compare/test_judge.py",)),
    "pipeline/result/compare/no_worse.py": Guarded((f"{_UNIT}/result/compare/test_no_worse.py",)),
    "pipeline/result/compare/compare_limits.py": Guarded((f"{_UNIT}/result/compare/test_compare_limits.py",)),
    "pipeline/result/compare/run_comparison.py": Guarded((f"{_UNIT}/result/compare/test_decide.py",), ("decide",)),
    "pipeline/drift/rules.py": Guarded((f"{_UNIT}/drift/test_rules.py",)),
    "pipeline/drift/metrics/equivalence.py": Guarded((f"{_UNIT}/drift/metrics/test_equivalence.py",)),
    "pipeline/commands/verify.py": Guarded(
        _STATUSES, ("VerifyResult.is_as_stated", "VerifyResult.decided")
    ),
    "pipeline/commands/bench.py": Guarded(_STATUSES, ("BenchResult.decided",)),
    "pipeline/commands/locate.py": Guarded(
        _STATUSES, ("LocateResult.can_keep_float", "LocateResult.decided", "LocateAllResult.decided")
    ),
    "pipeline/commands/convert.py": Guarded(_STATUSES, ("ConvertManyResult.decided", "ConvertedModel.decided")),
    "pipeline/commands/doctor.py": Guarded(_STATUSES, ("exit_code",)),
    "pipeline/commands/inspect.py": Guarded(
        _STATUSES, ("InspectedArtifact.is_sound", "InspectedArtifact.payload_changed", "InspectedArtifact.status")
    ),
}  # fmt: skip

# (module, function, change) -> why the mutant answers as the original does.
_GATE, _JUDGE = "pipeline/result/gate.py", "pipeline/result/compare/judge.py"
EQUIVALENT: Mapping[tuple[str, str, str], str] = {
    (_GATE, "gate", "1 -> 2"): "-2 stands before every place, too",
    (_GATE, "_metric_end", "1 -> 2"): "the interval is judged against 0, and samples by the ratio of two lengths",
    (_JUDGE, "judge_ratio", "abs(change) <= math.log1p(limit) + 1e-12 -> abs(change) < math.log1p(limit) + 1e-12"):
        "1e-12 is there because no ratio lies on its limit exactly",
    (_JUDGE, "judge_ratio", "1e-12 -> 1.1000000000000002e-12"): "any number of that size covers the rounding",
    (_JUDGE, "by_sign", "cost > 0 -> cost >= 0"): "0 has been answered before",
}  # fmt: skip
