"""Twelve pairs of releases: trained, converted and compared by the command line, as a team would."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).with_name("recipe_template.py")
TRANSLOAD = (sys.executable, "-P", "-m", "transload")


@dataclass(frozen=True)
class Pair:
    """Two trainings of one task. `worse`: whether the second one must not be released."""

    name: str
    data: str
    worse: bool
    old: dict[str, Any] = field(default_factory=dict)
    new: dict[str, Any] = field(default_factory=dict)
    metric: str | None = None
    limit: float | None = None  # None: the default


PAIRS = (
    Pair("digits after one epoch", "digits", True, {}, {"epochs": 1}),
    Pair("half of the labels wrong, imbalanced", "imbalanced", True, {}, {"wrong": 0.6, "share": 0.1}, "f1"),
    Pair("regression after two epochs", "friedman", True, {}, {"epochs": 2}),
    Pair("a fiftieth of the samples", "classes", True, {}, {"share": 0.02}),
    Pair("another seed", "classes", False, {}, {"seed": 1}),
    Pair("another seed, three points allowed", "digits", False, {}, {"seed": 1}, None, 0.03),
    Pair("regression with another seed, a tenth allowed", "friedman", False, {}, {"seed": 1}, None, 0.2),
    Pair("another seed, imbalanced", "imbalanced", False, {}, {"seed": 2}, "f1", 0.05),
    Pair("the same training", "digits", False),
    Pair("all of the samples", "classes", False, {"share": 0.02}, {}),
    Pair("regression that goes on", "friedman", False, {"epochs": 3}, {}),
    Pair("the labels right again, imbalanced", "imbalanced", False, {"wrong": 0.6, "share": 0.1}, {}, "f1"),
)


def try_pair(pair: Pair, work: Path) -> dict[str, Any]:
    """Run both trainings, the second against the first, and compare them once more; return both exit statuses."""
    folder = work / pair.name.replace(" ", "-").replace(",", "")
    folder.mkdir(parents=True)
    last = _run(pair, pair.old, folder, "old")
    options = ["--baseline", str(last[1])]
    options += [] if pair.limit is None else ["--release-loss", str(pair.limit)]
    status, run = _run(pair, pair.new, folder, "new", *options)
    limits = [] if pair.limit is None else ["--metric-loss", str(pair.limit)]
    compared = _call(["compare", str(last[1]), str(run), *limits], folder)
    words = [line.strip() for line in compared.stdout.splitlines() if line.strip().startswith("metric ")]
    refused = [code == 1 for code in (status, compared.returncode)]
    return {
        "pair": pair.name, "worse": pair.worse, "run": status, "compare": compared.returncode,
        "metric": words[0] if words else "", "right": refused == [pair.worse, pair.worse],
    }  # fmt: skip


def _run(pair: Pair, settings: dict[str, Any], folder: Path, name: str, *options: str) -> tuple[int, Path]:
    """Train and convert one release; return the exit status and the run's folder."""
    recipe = {"data": pair.data, "share": 1.0, "wrong": 0.0, **settings}
    train = [f"{key} = {recipe.pop(key)}" for key in ("seed", "epochs") if key in recipe]
    text = TEMPLATE.read_text().replace('{"data": "digits", "share": 1.0, "wrong": 0.0}', repr(recipe))
    (folder / f"{name}.py").write_text(text)
    metric = [] if pair.metric is None else ["[validate]", f'metric = "{pair.metric}"']
    lines = [
        "[model]", f'recipe = "{name}.py"', "[train]", *train, "[convert]", 'targets = ["onnx"]',
        "cross_check = false", *metric, "[bench]", "enabled = false",
    ]  # fmt: skip
    (folder / f"{name}.toml").write_text("\n".join(lines) + "\n")
    done = _call(["run", f"{name}.toml", "--out", f"runs-{name}", "--quiet", *options], folder)
    runs = sorted((folder / f"runs-{name}").glob("*/run.json"))
    if not runs:
        raise RuntimeError(f"{pair.name}: {done.stderr[-2000:]}")
    return done.returncode, runs[-1].parent


def _call(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TRANSLOAD, *arguments], cwd=folder, capture_output=True, text=True, check=False)
