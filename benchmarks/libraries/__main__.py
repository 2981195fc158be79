"""Models of other libraries, each converted by one command from an environment of their own: `--python ENV`.

    python benchmarks/libraries [--env FOLDER] [--only TEXT,...] [--again] [--jobs N] [--page]

Makes the environment (2.4 GB) in FOLDER unless it is there, from requirements.txt, and converts each model of
libraries.toml to ONNX, SavedModel and TFLite in a fresh process on an empty store. Goes on where it was stopped: a
model that has been tried is kept unless `--again`. `--only` takes parts of names of packages or models. Copies are
checked independently, too: own_answers.py in the environment and compare_copies.py here share no code with transload.
Writes benchmarks/results/libraries.json and docs/evidence/libraries-tried.md; `--page` writes the page alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from library_environment import make_library_environment, package_versions  # noqa: E402
from library_models import LibraryModel, read_models  # noqa: E402
from library_page import write_library_page  # noqa: E402

from transload.pipeline.result.environment import describe_environment  # noqa: E402

ROOT = HERE.parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "libraries.json"
PAGE = ROOT / "docs" / "evidence" / "libraries-tried.md"
TARGETS = "onnx,saved-model,tflite"
COMMAND_S, ANSWERS_S = 600, 120
CHECKED_BATCH = 7  # transload verifies batches 1, 2 and 5


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--env", type=Path, default=ROOT / ".transload" / "libraries")
    parser.add_argument("--only", default="", help="parts of names of packages or models, with commas")
    parser.add_argument("--again", action="store_true", help="try models again that have been tried")
    parser.add_argument("--jobs", type=int, default=1, help="models side by side")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"models": {}}
    if not options.page:
        interpreter = make_library_environment(options.env)
        results |= {"machine": vars(describe_environment()), "environment": package_versions(interpreter)}
        models = [model for model in read_models() if _is_wanted(model, options.only)]
        pending = [model for model in models if options.again or model.key not in results["models"]]
        lock = threading.Lock()

        def record(model: LibraryModel) -> None:
            row = _try_model(model, interpreter)
            with lock:
                results["models"][model.key] = row
                _write(results)
                print(model.key, json.dumps(row)[:400], flush=True)

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(record, pending))
    _write(results)
    write_library_page(results, PAGE)
    return 0


def _is_wanted(model: LibraryModel, only: str) -> bool:
    return not only or any(part in model.key for part in only.split(","))


def _write(results: Mapping[str, Any]) -> None:
    order = [model.key for model in read_models()]
    rows = {key: results["models"][key] for key in order if key in results["models"]}
    RESULTS.write_text(json.dumps({**results, "models": rows}, indent=1, default=str) + "\n")


def _try_model(model: LibraryModel, interpreter: Path) -> dict[str, Any]:
    """Convert a model in one command, and compare its copies with answers of its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        problem = _record_answers(model, interpreter, scratch)
        if problem:
            return {"exit_code": None, "seconds": 0, "artifacts": {}, "errors": [], "said": problem, "checks": {}}
        row = _convert(model, interpreter, scratch)
        row["checks"] = _compare(scratch)
    return row


def _record_answers(model: LibraryModel, interpreter: Path, scratch: Path) -> str:
    """Write weights.pt and answers.npz with the environment's own Python; return the error, if any."""
    job = scratch / "job.json"
    job.write_text(json.dumps({**model.job(CHECKED_BATCH), "out": str(scratch), "nets": str(HERE / "nets")}))
    command = [str(interpreter), "-B", str(HERE / "own_answers.py"), str(job)]
    result = subprocess.run(
        command, env=_plain_environment(), capture_output=True, text=True, timeout=ANSWERS_S, check=False
    )
    return (result.stderr.strip().splitlines() or ["no answers"])[-1] if result.returncode else ""


def _convert(model: LibraryModel, interpreter: Path, scratch: Path) -> dict[str, Any]:
    """Run the one command in a fresh process on an empty store, and return what became of each target."""
    out = scratch / "out"
    command = [sys.executable, "-P", "-m", "transload", *model.command(interpreter)]
    weights = scratch / "weights.pt"
    command += ["--weights", str(weights)] if weights.exists() else []
    command += ["--to", TARGETS, "--out", str(out), "--store", str(scratch / "store"), "--quiet"]
    started = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=HERE / "nets", env=_plain_environment(), capture_output=True, text=True,
            timeout=COMMAND_S, check=False,
        )  # fmt: skip
        code, said = done.returncode, done.stderr + done.stdout
    except subprocess.TimeoutExpired:
        code, said = None, f"ended after {COMMAND_S} s"
    seconds = round(time.monotonic() - started, 1)
    record = out / "convert.json"
    text = record.read_text() if record.exists() else '{"artifacts": [], "errors": []}'
    document = json.loads(_without_places(text, scratch, interpreter))
    return {
        "exit_code": code,
        "seconds": seconds,
        "artifacts": {artifact["name"]: _artifact_row(artifact) for artifact in document["artifacts"]},
        "errors": [str(error)[:500] for error in document["errors"]],
        "said": "" if code == 0 else _without_places(said, scratch, interpreter)[-1500:],
    }


def _without_places(text: str, scratch: Path, interpreter: Path) -> str:
    """Replace folders of this machine, which the committed results shall not have."""
    for place, word in ((scratch, "..."), (interpreter.parents[1], "ENV"), (ROOT, ".")):
        text = text.replace(str(place), word)
    return text


def _artifact_row(artifact: Mapping[str, Any]) -> dict[str, Any]:
    attempts = [
        {"route": " > ".join(row["route"]), "status": row["status"], "reason": str(row["reason"])[:400]}
        for row in artifact["tried"]
        if row["status"] not in ("not tried", "verified")
    ]
    return {"status": artifact["status"], "route": " > ".join(artifact["route"] or ()), "refused": attempts,
            "batches": artifact["batches_verified"]}  # fmt: skip


def _compare(scratch: Path) -> dict[str, Any]:
    """Run the independent comparison; a crash of it counts as no answer for each copy."""
    command = [sys.executable, str(HERE / "compare_copies.py"), str(scratch)]
    result = subprocess.run(
        command, env=_plain_environment(), capture_output=True, text=True, timeout=ANSWERS_S, check=False
    )
    lines = result.stdout.strip().splitlines()
    if not lines or result.returncode:
        return {"error": result.stderr[-300:]}
    checks: dict[str, Any] = json.loads(lines[-1])
    return checks


def _plain_environment() -> dict[str, str]:
    """Return the environment without variables of Python's: this checkout stays out of the way of the user's."""
    return {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


if __name__ == "__main__":
    sys.exit(main())
