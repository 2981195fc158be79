"""Small models, each converted from other environments than transload's own: `--python PATH`, a fresh store.

    python benchmarks/environments [--envs FOLDER] [--only ENVIRONMENT,...] [--model NAME,...] [--alone] [--again]
                                   [--page]

Makes each environment of environments.toml in FOLDER (about 5 GB apiece) unless it is there, and goes on where it was
stopped: a cell that has been tried is kept unless `--again`. Writes benchmarks/results/environments.json and
docs/evidence/environments-tried.md; `--page` writes the page alone. `--alone` tries the same models in a module that
transload's own torch cannot import (nets/only_there.py), so that only what the environment hands over can be converted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from interpreters import digest_of_folder, make_environment, read_recipes, versions_of  # noqa: E402
from tried_page import write_page  # noqa: E402

from transload.pipeline.result.environment import describe_environment  # noqa: E402

ROOT = HERE.parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "environments.json"
PAGE = ROOT / "docs" / "evidence" / "environments-tried.md"
TARGETS = "onnx,saved-model,tflite"
CELL_S = 400
MODELS = {
    "image_net": ("image=float32[batch,3,16,16]",),
    "dict_mlp": ("rows=float32[batch,13]",),
    "text_lstm": ("ids=int64[batch,words=2..40] in 0..49",),
    "encoder": ("ids=int64[batch,12] in 0..39",),
    "unet": ("image=float32[batch,1,height=8..64:4,width=8..64:4] in 0..1",),
    "several_inputs": ("features=float32[batch,6]", "table=float32[batch,4]", "weight=float32[batch,1]"),
    "flags_and_ids": (
        "day=int64[batch] in 0..6", "shop=int64[batch] in 0..11", "is_open=bool[batch]", "prices=float32[batch,3]",
    ),
    "audio": ("wave=float32[batch,time=32..4096]",),
    "forecast": ("series=float32[batch,7,5] in -4..4",),
    "super_resolution": ("image=float32[batch,3,height=8..64,width=8..64]",),
    "gated": ("image=float32[batch,3,9,9]",),
    "half_precision": ("rows=float32[batch,10]",),
    "branching": ("rows=float32[batch,4]",),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--envs", type=Path, default=ROOT / ".transload" / "environments")
    parser.add_argument("--only", default="", help="names of environments, with commas")
    parser.add_argument("--model", default="", help="names of models, with commas")
    parser.add_argument("--alone", action="store_true", help="models that only their own environment can make")
    parser.add_argument("--again", action="store_true", help="try cells again that have been tried")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"environments": {}}
    if not options.page:
        options.envs.mkdir(parents=True, exist_ok=True)
        results["machine"] = vars(describe_environment())
        models = options.model.split(",") if options.model else list(MODELS)
        for recipe in read_recipes():
            if options.only and recipe.name not in options.only.split(","):
                continue
            row = results["environments"].setdefault(recipe.name, {"models": {}, "alone": {}})
            interpreter = make_environment(recipe, options.envs)
            if isinstance(interpreter, str):
                row["absent"] = interpreter
                print(f"{recipe.name}: {interpreter}", flush=True)
                continue
            row.pop("absent", None)
            row |= {**versions_of(interpreter), "packages": list(recipe.packages)}
            cells = row.setdefault("alone" if options.alone else "models", {})
            for name in models:
                if options.again or name not in cells:
                    module = "only_there" if options.alone else "small_nets"
                    cells[name] = _try_model(interpreter, module, name)
                    print(recipe.name, module, name, json.dumps(cells[name])[:300], flush=True)
                    _write(results)
    _write(results)
    write_page(results, PAGE)
    return 0


def _write(results: dict[str, Any]) -> None:
    RESULTS.write_text(json.dumps(results, indent=1, default=str) + "\n")


def _try_model(interpreter: Path, module: str, model: str) -> dict[str, Any]:
    """Convert a model from one environment, with digests of it and of the project before and after."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "project"
        shutil.copytree(HERE / "nets", project, ignore=shutil.ignore_patterns("__pycache__"))
        watched = {"project": project, "environment": interpreter.parents[1]}
        before = {name: digest_of_folder(folder) for name, folder in watched.items()}
        cell = _converted(interpreter, project, f"{module}.py:{model}", Path(scratch))
        cell["digests"] = {name: [before[name], digest_of_folder(folder)] for name, folder in watched.items()}
    return cell


def _converted(interpreter: Path, project: Path, reference: str, scratch: Path) -> dict[str, Any]:
    """Convert one model in a fresh process on an empty store, and return what became of each target."""
    out, store = scratch / "out", scratch / "store"
    inputs = [word for spec in MODELS[reference.split(":")[1]] for word in ("--input", spec)]
    command = [sys.executable, "-P", "-m", "transload", "convert", reference, *inputs]
    command += ["--python", str(interpreter), "--to", TARGETS, "--out", str(out), "--store", str(store), "--quiet"]
    # The checkout's own runtime stays out of the way of the user's: no variable of Python's is handed on.
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    load, started = os.getloadavg()[0], time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, timeout=CELL_S, check=False
        )
        code, said = done.returncode, done.stderr + done.stdout
    except subprocess.TimeoutExpired:
        code, said = None, f"ended after {CELL_S} s"
    seconds = round(time.monotonic() - started, 1)
    record = out / "convert.json"
    text = record.read_text() if record.exists() else '{"artifacts": [], "errors": []}'
    document = json.loads(text.replace(str(scratch), "...").replace(str(interpreter.parents[1]), "ENVIRONMENT"))
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(store, ignore_errors=True)
    return {
        "exit_code": code,
        "seconds": seconds,
        "load_before": round(load, 1),
        "artifacts": {artifact["name"]: _artifact_row(artifact) for artifact in document["artifacts"]},
        "errors": [str(error)[:500] for error in document["errors"]],
        "said": "" if code == 0 else said.replace(str(scratch), "...")[-1500:],
    }


def _artifact_row(artifact: dict[str, Any]) -> dict[str, Any]:
    tried = [
        {"route": " > ".join(row["route"]), "status": row["status"], "reason": str(row["reason"])[:300]}
        for row in artifact["tried"]
        if row["status"] not in ("not tried", "verified")
    ]
    return {"status": artifact["status"], "route": " > ".join(artifact["route"] or ()), "refused": tried,
            "batches": artifact["batches_verified"]}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
