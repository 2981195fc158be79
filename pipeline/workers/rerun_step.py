"""Repeat one step of a run alone: `python -m transload.pipeline.workers.rerun_step FILE`, as repeat/STEP.sh calls it.

The worker has the limits, the environment, the network and the server that it had in the run. What it leaves lies in a
folder beside the file: `out`, its private folder `cwd`, and the log, which is also printed.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...models.errors import TransloadError
from .isolation import Limits, Spawn, Worker


def main(argv: list[str]) -> int:
    """Repeat the step of a file; its facts on stdout, everything else on stderr."""
    file = Path(argv[0]).absolute()
    folder = file.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "out").mkdir(parents=True)
    log = folder / "log"
    try:
        facts = repeat(json.loads(file.read_text()), folder, log)
    except TransloadError as error:
        print(f"{_text(log)}error: {error}", file=sys.stderr)
        return error.exit_code
    print(_text(log), end="", file=sys.stderr)
    print(json.dumps(facts, indent=1))
    print(f"the result lies in {folder / 'out'}", file=sys.stderr)
    return 0


def repeat(record: Mapping[str, Any], folder: Path, log: Path) -> dict[str, Any]:
    """Do the step of a record, with the server that it needs, in `folder`. Raises the error that the step meets."""
    limits = Limits(**record["limits"])
    with ExitStack() as stack:
        services = _services(record["server"], limits, folder, stack) if record["server"] else {}
        job = {**record["job"], "out": str(folder / "out"), "services": services}
        places = tuple(record["sys_path"]), tuple(record["reads"]), (str(folder / "out"),)
        spawn = Spawn(log, folder / "cwd", limits, *places, python=record["python"])
        worker = stack.enter_context(Worker(spawn))
        return worker.work(record["entry"], job)


def _services(server: Mapping[str, Any], limits: Limits, folder: Path, stack: ExitStack) -> dict[str, str]:
    if "addresses" in server:
        return dict(server["addresses"])
    limits = replace(limits, loopback=True, walled=server["walled"])
    spawn = Spawn(folder / "server.log", folder / "server", limits, reads=(server["options"]["folder"],))
    worker = stack.enter_context(Worker(spawn))
    worker.open(server["entry"], server["options"])
    addresses: dict[str, str] = worker.ask("addresses")
    return addresses


def _text(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
