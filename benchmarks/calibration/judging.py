"""The rules that judge a pair of series, ours and those of other tools, on the same samples."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import numpy as np
from scipy import stats

from transload.models.signature import Array
from transload.pipeline.measure.bench.comparison import LOOKS, compare_logs, log_ratios
from transload.pipeline.measure.bench.latency_rows import read_series
from transload.pipeline.measure.bench.rounds import ProcessSamples, Series
from transload.pipeline.options.request import BenchSection
from transload.pipeline.result.environment import describe_environment
from transload.pipeline.result.ratio import Comparison

SLOWER = (0.0, 0.03, 0.05, 0.10, 0.20)
BUDGET_S = BenchSection().budget_s
Rule: TypeAlias = Callable[["MeasuredPair"], bool]  # whether it says that the candidate is not as fast as the reference


@dataclass(frozen=True)
class MeasuredPair:
    """The samples of a candidate and its reference, with the seconds that measuring them took."""

    candidate: Series
    reference: Series
    seconds: float

    def slowed(self, share: float) -> MeasuredPair:
        """Return the pair with a candidate whose calls take that much longer."""
        processes = {
            number: ProcessSamples(rounds={at: chunk * (1 + share) for at, chunk in one.rounds.items()})
            for number, one in self.candidate.processes.items()
        }
        return MeasuredPair(Series(self.candidate.pair, 1, processes=processes), self.reference, self.seconds)


def judge_pool(pool: Path, kinds: list[str]) -> dict[str, Any]:
    """Return how often each rule finds a difference, by kind and by how much slower the candidate is."""
    document: dict[str, Any] = {"environment": asdict(describe_environment())}
    for kind in kinds:
        pairs = [_read(path) for path in sorted((pool / kind).glob("*.npz"))]
        if pairs:
            loads = [json.loads(path.read_text())["load"] for path in sorted((pool / kind).glob("*.json"))]
            document[kind] = {"pairs": len(pairs), "load": [min(loads), median(loads), max(loads)], **_judge(pairs)}
    return document


def _judge(pairs: list[MeasuredPair]) -> dict[str, Any]:
    ours = [_ours(pair.slowed(share)) | {"slower by": share} for share in SLOWER for pair in pairs]
    rows = [_row(share, [one for one in ours if one["slower by"] == share]) for share in SLOWER]
    others = {
        name: {f"{share:.0%}": _share([rule(pair.slowed(share)) for pair in pairs]) for share in SLOWER}
        for name, rule in OTHERS.items()
    }
    return {"transload bench": rows, "covered": _coverage(pairs), "said to differ, other rules": others}


def _ours(pair: MeasuredPair) -> dict[str, Any]:
    """Replay the rule of `transload bench`: look after LOOKS sets of processes, stop as soon as it is settled, and
    before a set that would end after the budget."""
    logs = log_ratios(pair.candidate, pair.reference)
    most = sets_within(BUDGET_S, pair.seconds / len(logs), len(logs))
    looks = [*(look for look in LOOKS if look < most), most]
    for look in looks:
        ratio = compare_logs(logs[:look])
        assert ratio is not None
        if ratio.comparison is not Comparison.INCONCLUSIVE or look == looks[-1]:
            share = pair.seconds * look / len(logs)
            return {"comparison": ratio.comparison, "seconds": share, "ci95": ratio.ci95}
    raise AssertionError(looks)


def sets_within(budget_s: float, set_s: float, most: int) -> int:
    """Return how many sets of processes, of so many seconds each, `transload bench` begins within a budget."""
    return min(most, max(BenchSection().processes, int(budget_s / set_s)))


def _row(share: float, judged: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = sorted(one["seconds"] for one in judged)
    counts = {str(name): _share([one["comparison"] is name for one in judged]) for name in Comparison}
    inside = [one["ci95"][0] <= 1 + share <= one["ci95"][1] for one in judged]
    differ = [one["comparison"] in {Comparison.FASTER, Comparison.SLOWER} for one in judged]
    return {
        "slower by": share, **counts, "said to differ": _share(differ),
        "interval at the stop holds the truth": _share(inside),
        "seconds (median, most)": [round(median(seconds), 1), round(seconds[-1], 1)],
    }  # fmt: skip


def _coverage(pairs: list[MeasuredPair]) -> dict[str, Any]:
    """Return how often the 95 % interval over a fixed number of sets holds 1, and how wide half of it is."""
    table = {}
    observed = [log_ratios(pair.candidate, pair.reference) for pair in pairs]
    most = min(map(len, observed))
    for count in (*(look for look in LOOKS if look < most), most):
        intervals = []
        for logs in observed:
            ratio = compare_logs(logs[:count])
            if ratio is not None and ratio.ci95 is not None:
                intervals.append(ratio.ci95)
        halves = [math.sqrt(high / low) - 1 for low, high in intervals]
        held = _share([low <= 1 <= high for low, high in intervals])
        table[f"{count} sets of processes"] = {"holds 1": held, "half a width": round(median(halves), 4)}
    return table


def _share(flags: list[bool]) -> dict[str, Any]:
    """Return a share with its 95 % interval (Clopper-Pearson)."""
    count, total = sum(flags), len(flags)
    interval = stats.binomtest(count, total).proportion_ci(0.95, "exact")
    return {"share": round(count / total, 4), "ci95": [round(float(interval.low), 3), round(float(interval.high), 3)]}


def _first(series: Series) -> list[Array]:
    """Return the chunks of calls of the first process."""
    return list(series.processes[min(series.processes)].rounds.values())


def _naive_loop(pair: MeasuredPair) -> bool:
    """One process of each, one after the other, 1000 calls: the means differ by 2 % or more."""
    means = [float(np.mean(np.concatenate(_first(series))[:1000])) for series in (pair.candidate, pair.reference)]
    return abs(means[0] / means[1] - 1) >= 0.02


def _perf_analyzer(pair: MeasuredPair) -> bool:
    """perf_analyzer: the first three windows in turn whose means lie within 10 % of their own mean; the figures of the
    two runs are then read side by side, and 2 % taken for a difference. A window is a round here."""
    stable = []
    for series in (pair.candidate, pair.reference):
        windows = [float(np.mean(chunk)) for chunk in series.chunks]
        triples = (windows[at : at + 3] for at in range(len(windows) - 2))
        steady = (three for three in triples if max(abs(one / np.mean(three) - 1) for one in three) <= 0.1)
        stable.append(float(np.mean(next(steady, windows[-3:]))))
    return abs(stable[0] / stable[1] - 1) >= 0.02


def _pyperf(pair: MeasuredPair) -> bool:
    """Pyperf compare_to: values are means of a process's loops, many processes; Student's two-sided t-test at 95 % on
    all values (pyperf._utils.is_significant), a difference is told where it is significant."""
    values = [[float(np.mean(chunk)) for chunk in series.chunks] for series in (pair.candidate, pair.reference)]
    return bool(stats.ttest_ind(*values).pvalue < 0.05)


def _hyperfine(pair: MeasuredPair) -> bool:
    """hyperfine: mean and standard deviation of each command's runs (here: processes), "x ± y times faster" where the
    difference is more than the propagated deviation of the ratio."""
    runs = [
        np.array([float(np.mean(np.concatenate([*one.rounds.values()]))) for one in series.processes.values()])
        for series in (pair.candidate, pair.reference)
    ]
    means, deviations = [float(run.mean()) for run in runs], [float(run.std(ddof=1)) for run in runs]
    ratio = means[0] / means[1]
    noise = ratio * math.hypot(*(sd / mean for sd, mean in zip(deviations, means, strict=True)))
    return abs(ratio - 1) > noise


def _rounds_bootstrap(pair: MeasuredPair) -> bool:
    """What transload did before: one process of each, interleaved rounds, bootstrap over the rounds at 95 %."""
    candidate, reference = _first(pair.candidate), _first(pair.reference)
    logs = np.log([float(np.median(a) / np.median(b)) for a, b in zip(candidate, reference, strict=True)])
    picks = np.random.default_rng(0).integers(0, len(logs), size=(4999, len(logs)))
    low, high = np.percentile(np.median(logs[picks], axis=1), (2.5, 97.5))
    return not low <= 0 <= high


OTHERS: Mapping[str, Rule] = {
    "naive loop": _naive_loop,
    "perf_analyzer": _perf_analyzer,
    "pyperf": _pyperf,
    "hyperfine": _hyperfine,
    "rounds of one process": _rounds_bootstrap,
}


def _read(path: Path) -> MeasuredPair:
    reference, candidate = read_series(path)
    return MeasuredPair(candidate, reference, float(json.loads(path.with_suffix(".json").read_text())["seconds"]))
