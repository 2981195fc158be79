"""Ask an interpreter for its versions and folders, without importing its torch. Worker only."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadRequest
from ..job import Job, JsonRecord
from .inside.inspect_python import MARK
from .interpreter import UserPython
from .user_process import start_error

_PROGRAM = Path(__file__).parent / "inside" / "inspect_python.py"
_LIMIT_S = 60
_LEAST = (3, 9)  # what the package `inside` is written for


@dataclass(frozen=True, kw_only=True)
class PythonOptions(JsonRecord):
    """An interpreter that a user's model may live in."""

    path: str
    programs: tuple[str, ...] = ()
    pythonpath: tuple[str, ...] = ()
    optional: bool = False  # nobody named it: without a framework it is none, and no error
    home: str = ""  # the user's: HOME of a worker is a folder of its own
    user_base: str = ""  # the user's PYTHONUSERBASE


def describe_python(job: Job) -> Mapping[str, Any]:
    """Return the record of an interpreter: PythonOptions -> UserPython, with an empty version of what it has not.
    Raises BadRequest where it is no Python of 3.9 or later, or one that is named has neither torch nor TensorFlow."""
    options = PythonOptions.from_json(job.options)
    record = _answer_of(options)
    version = str(record["version"])
    if tuple(map(int, version.split(".")[:2])) < _LEAST:
        raise BadRequest(
            f"{options.path} is Python {version}", fix="name one of Python 3.9 or later, or give --python self"
        )
    if not {"torch", "tensorflow"} & record.keys() and not options.optional:
        raise BadRequest(
            f"{options.path} (Python {version}) has no torch and no TensorFlow",
            fix="name the interpreter that the model runs in, or give --python self",
        )
    return UserPython(
        path=options.path, version=version, torch=str(record.get("torch", "")), numpy=str(record.get("numpy", "")),
        tensorflow=str(record.get("tensorflow", "")), keras=str(record.get("keras", "")),
        digest=str(record.get("digest", "")), folders=tuple(map(str, (*record["folders"], *record["path"]))),
        packages=tuple(map(str, record["packages"])), programs=options.programs, pythonpath=options.pythonpath,
        user_base=str(record.get("user_base") or ""),
    ).to_json()  # fmt: skip


def _answer_of(options: PythonOptions) -> dict[str, Any]:
    """Return what the interpreter says of itself. Raises BadRequest where it says nothing."""
    variables = {
        "PYTHONPATH": os.pathsep.join(options.pythonpath), "PYTHONUSERBASE": options.user_base, "HOME": options.home,
    }  # fmt: skip
    environment = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {name: value for name, value in variables.items() if value}
    try:
        done = subprocess.run(
            [options.path, "-B", str(_PROGRAM)], capture_output=True, text=True, timeout=_LIMIT_S, check=False,
            env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise BadRequest(f"{options.path} did not start in {_LIMIT_S} s", fix="name another with --python") from error
    except OSError as error:
        raise start_error(options.path, error) from error
    print(done.stderr)  # for the step's log
    line = next((text for text in reversed(done.stdout.splitlines()) if text.startswith(MARK)), None)
    try:
        record = json.loads((line or "").removeprefix(MARK))
        return {"folders": [], "path": [], "packages": [], **record, "version": record["version"]}
    except (ValueError, LookupError, TypeError) as error:
        said = (done.stderr.strip().splitlines() or ["it does not answer as a Python does"])[-1]
        raise BadRequest(
            f"{options.path} is no Python that runs here: {said[:200]}",
            fix="name the interpreter of the model's environment, as in --python .venv/bin/python",
        ) from error
