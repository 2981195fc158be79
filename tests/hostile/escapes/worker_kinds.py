"""A process between the walls of a kind of worker, as a user, where the kernel has all walls or some.

Its argument is JSON: {user, kind, walls, place}. It prints what got through as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from tests.hostile.escapes import attempts
from transload.pipeline.workers.compiler import find_compiler
from transload.pipeline.workers.isolation import Limits, Spawn, _walls
from transload.pipeline.workers.walls import sandbox

KINDS = {
    "a worker": Limits(),
    "a worker that measures": Limits(loopback=True),
    "a worker that compiles": Limits(compiles=True),
}
# What a kernel lacks.
WALLS: dict[str, tuple[str, ...]] = {
    "all": (),
    "in a container": ("namespaces",),
    "Landlock alone": ("seccomp", "namespaces"),
    "seccomp alone": ("Landlock", "namespaces"),
}


def main(request: dict[str, Any]) -> None:
    place = request["place"]
    spawn = Spawn(Path("log"), Path.cwd(), KINDS[request["kind"]], reads=(place["file"],))
    arguments = _walls(spawn)
    compiler = find_compiler()
    place["loader"] = next((file for file in compiler.programs if "ld-linux" in file), "") if compiler else ""
    place["worker"] = os.getpid()
    place["status"] = os.open(f"/proc/{place['pid']}/status", os.O_RDONLY)
    if os.getuid() != request["user"]:
        os.setgroups([place["gid"]])
        os.setresgid(*[request["user"]] * 3)
        os.setresuid(*[request["user"]] * 3)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # DUMPABLE: as if it had been started by that user
    lacking = WALLS.get(request["walls"], ())
    sandbox.missing_walls = lambda: tuple(wall for wall in lacking if wall != "namespaces")
    if "namespaces" in lacking:
        sandbox.enter_namespaces = lambda *_, **__: False  # type: ignore[attr-defined]
    if request["walls"] != "none":
        sandbox.raise_walls(**arguments)
    print(json.dumps([name for name, through in attempts.try_all(place).items() if through]))


if __name__ == "__main__":
    socket.setdefaulttimeout(10)
    main(json.loads(sys.argv[1]))
