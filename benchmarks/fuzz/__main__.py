"""Fuzz `transload serve`: HTTP by schemathesis from docs/openapi.json, HTTP in mutated bytes, gRPC in all messages.

    python benchmarks/fuzz [--requests 100000] [--parts http,bytes,grpc] [--jobs 2] [--seed 0] [--out FILE.json]

Each part asks a server of its own: as many requests as `--requests` says, of mutated bytes a tenth. From time to time,
and at the end, it asks what has a known answer. Exit status 1 where the server ended, answered a request with an error
of its own (5xx, INTERNAL, UNKNOWN), did not answer within its deadline, answered otherwise than the document says,
answered a valid request wrongly, or holds much more memory at the end than after the first tenth.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
os.environ["PYTHONPATH"] = str(ROOT / "typings")
sys.path.insert(0, str(ROOT / "typings"))
sys.path.append(str(Path(__file__).parent / ".packages" / "site-packages"))  # `make fuzz` installs schemathesis there

from fuzzed_server import ANSWER_S, FuzzedServer, Outcomes  # noqa: E402
from grpc_messages import GrpcClient  # noqa: E402
from mutated_bytes import MutatingClient  # noqa: E402
from openapi_requests import ask_openapi  # noqa: E402

_ROUNDS = 10
_GROWTH_BYTES = 64 << 20  # by which memory may grow after the first round: heaps are not compact


def ask_over_http(server: FuzzedServer, seed: int, count: int, jobs: int) -> Outcomes:
    """Send what schemathesis makes, from `jobs` processes."""
    outcomes = Outcomes()
    tasks = [(server.http, seed * 1_000_003 + job, count // jobs) for job in range(jobs)]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for part in pool.starmap(ask_openapi, tasks):
            outcomes.merge(part)
    return outcomes


def ask_in_bytes(server: FuzzedServer, seed: int, count: int, _jobs: int) -> Outcomes:
    """Send a tenth of `count` requests as mutated bytes."""
    outcomes = Outcomes()
    MutatingClient(server, seed, outcomes).ask(count // 10)
    return outcomes


def ask_over_grpc(server: FuzzedServer, seed: int, count: int, _jobs: int) -> Outcomes:
    """Send messages of all services."""
    outcomes = Outcomes()
    GrpcClient(server, seed, outcomes).ask(count)
    return outcomes


PARTS: dict[str, Callable[[FuzzedServer, int, int, int], Outcomes]] = {
    "http": ask_over_http, "bytes": ask_in_bytes, "grpc": ask_over_grpc,
}  # fmt: skip


def fuzz(part: str, count: int, seed: int, jobs: int) -> dict[str, Any]:
    """Send the requests of a part to a server; return what came of them."""
    outcomes, memory = Outcomes(), []
    with tempfile.TemporaryDirectory() as name, FuzzedServer(Path(name)) as server:
        server.check(outcomes)
        memory.append(server.memory())
        start = time.monotonic()
        for number in range(_ROUNDS):
            outcomes.merge(PARTS[part](server, seed * _ROUNDS + number, count // _ROUNDS, jobs))
            if not server.is_alive:
                outcomes.add_fault("the server ended", server.lines[-20:])
                break
            server.check(outcomes)
            memory.append(server.memory())
            print(f"{part}: {outcomes.requests} requests, {outcomes.counts['faults']} faults", file=sys.stderr)
            print(*outcomes.faults, sep="\n", file=sys.stderr, end="\n" if outcomes.faults else "")
        seconds = time.monotonic() - start
        status, lines = server.stop(), server.lines
    before, after = memory[min(1, len(memory) - 1)], memory[-1]
    grows = [key for key in after if key != "processes" and after[key] > before[key] + _GROWTH_BYTES]
    if grows:
        outcomes.add_fault(f"memory grows: {grows}", memory)
    if status:
        outcomes.add_fault(f"exit status {status}", lines[-20:])
    if lines:
        outcomes.add_fault("the server wrote to its log of errors", lines[:20])
    return {
        "requests": outcomes.requests, "seconds": round(seconds), "slowest_answer_s": round(outcomes.slowest_s, 2),
        "outcomes": dict(outcomes.counts.most_common()), "memory": [*memory[:2], memory[-1]],
        "faults": outcomes.faults,
    }  # fmt: skip


def main() -> int:
    """Fuzz, print and write what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = {part: fuzz(part, options.requests, options.seed, options.jobs) for part in options.parts.split(",")}
    versions = {name: importlib.metadata.version(name) for name in ("schemathesis", "hypothesis", "grpcio", "protobuf")}
    result = {
        "seed": options.seed, "deadline_s": ANSWER_S, "python": platform.python_version(), "cores": os.cpu_count(),
        "load": [round(load, 1) for load in os.getloadavg()], "versions": versions, **results,
    }  # fmt: skip
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return int(any(results[part]["faults"] for part in results))


if __name__ == "__main__":
    sys.exit(main())
