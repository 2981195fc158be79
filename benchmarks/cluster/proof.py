"""Many small models through `convert` on a Ray cluster, held against the local executor's results.

    python benchmarks/cluster/proof.py [--models 6] [--nodes 1,2,4] [--cores 1] [--out benchmarks/results/cluster.json]

Each case begins with an empty store. Two cases are cut short: a node is killed in the middle, and the command itself.
Compared are the results of all steps (key, digest, refusals) and convert.json but for its times. Seconds on one machine
say nothing about several: the nodes share its cores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TRANSLOAD = [sys.executable, "-P", "-m", "transload"]
_LIMIT_S = 1800
_TIMES = ("seconds", "peak_rss_bytes")


@dataclass
class Case:
    """One pass over all models, and what differs from the local executor's."""

    name: str
    seconds: float
    exit_code: int
    steps: int  # that the store holds at the end
    kept: int = 0  # of them those that were there when the case was cut short
    different: tuple[str, ...] = ()  # steps whose content differs, or is missing
    same_document: bool = True
    left_processes: int = 0


class Nodes:
    """A running cluster."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self._process, self.address = process, address

    def kill_one(self) -> None:
        """Kill a node that is not the head."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("kill\n")
        self._process.stdin.flush()
        next(line for line in self._process.stdout if line.startswith("killed"))


@contextlib.contextmanager
def cluster(nodes: int, cores: int, scratch: Path) -> Iterator[Nodes]:
    """Start a cluster on this machine until the end of the block."""
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "TMPDIR": str(scratch), "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-P", str(HERE / "ray_nodes.py"), str(nodes), str(cores)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdin
        assert process.stdout
        addresses = (line.partition("address=")[2].strip() for line in process.stdout if "address=" in line)
        try:
            yield Nodes(process, next(addresses))
        finally:
            process.stdin.close()
            process.wait(60)


class Proof:
    """Runs the cases in a folder of its own."""

    def __init__(self, home: Path, models: int) -> None:
        self.home = home
        self.models = [f"{HERE / 'nets.py'}:net_{number}" for number in range(models)]
        self.reference: dict[str, dict[str, Any]] = {}
        self.document: Any = None

    def start(self, name: str, address: str | None) -> subprocess.Popen[bytes]:
        """Start the command of a case. `address`: a cluster's; None: the local executor."""
        words = ["convert", *self.models, "--input", "x=float32[batch,16]", "--to", "onnx", "--quiet"]
        words += ["--out", str(self.home / name), "--store", str(self.home / f"{name}.store")]
        environment = dict(os.environ)
        if address:
            words += ["--executor", "ray"]
            environment["RAY_ADDRESS"] = address
        log = (self.home / f"{name}.log").open("ab")
        return subprocess.Popen([*TRANSLOAD, *words], stdout=log, stderr=log, env=environment, cwd=self.home)

    def case(self, name: str, address: str | None, *, process: subprocess.Popen[bytes] | None = None) -> Case:
        """Run a case to its end, or one that was begun, and compare."""
        start = time.monotonic()
        code = (process or self.start(name, address)).wait(_LIMIT_S)
        seconds = time.monotonic() - start
        steps = self.steps(name)
        document = _without_times(json.loads((self.home / name / "convert.json").read_text()))
        if not self.reference:
            self.reference, self.document = steps, document
        different = [
            record["step"]
            for key, record in self.reference.items()
            if steps.get(key, {}).get("digest") != record["digest"]
        ]
        return Case(
            name, round(seconds, 1), code, len(steps), different=tuple(different),
            same_document=document == self.document, left_processes=len(self.processes()),
        )  # fmt: skip

    def steps(self, name: str) -> dict[str, dict[str, Any]]:
        """The records of the steps in a case's store, by their keys."""
        files = (self.home / f"{name}.store" / "actions").glob("*.json")
        return {file.stem: json.loads(file.read_text()) for file in files}

    def wait_for_steps(self, name: str, count: int, process: subprocess.Popen[bytes]) -> int:
        """Wait until a case has finished so many steps; return how many they are."""
        while process.poll() is None and len(self.steps(name)) < count:
            time.sleep(0.2)
        return len(self.steps(name))

    def processes(self) -> list[int]:
        """Processes that work in the home folder: workers, and what holds frameworks for them."""
        here = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(self.home):
                    here.append(int(entry.name))
        return here

    def node_killed(self, cores: int) -> Case:
        """Two nodes, of which one is killed once a third of the steps are there."""
        with cluster(2, cores, self.scratch) as nodes:
            process = self.start("node-killed", nodes.address)
            kept = self.wait_for_steps("node-killed", len(self.reference) // 3, process)
            nodes.kill_one()
            case = self.case("node-killed", nodes.address, process=process)
        case.kept = kept
        return case

    def driver_killed(self, cores: int) -> Case:
        """Two nodes; the command is killed once a third of the steps are there, and given again."""
        with cluster(2, cores, self.scratch) as nodes:
            process = self.start("driver-killed", nodes.address)
            self.wait_for_steps("driver-killed", len(self.reference) // 3, process)
            process.send_signal(signal.SIGKILL)
            process.wait()
            end = time.monotonic() + 30
            while self.processes() and time.monotonic() < end:
                time.sleep(0.5)
            left = len(self.processes())
            before = self.steps("driver-killed")
            case = self.case("driver-killed", nodes.address)
        case.kept, case.left_processes = len(before), left + case.left_processes
        return case

    @property
    def scratch(self) -> Path:
        """Where nodes keep what is only theirs."""
        folder = self.home / "nodes"
        folder.mkdir(exist_ok=True)
        return folder


def _without_times(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: _without_times(value) for key, value in document.items() if key not in _TIMES}
    return [_without_times(value) for value in document] if isinstance(document, list) else document


def prove(models: int, nodes: Sequence[int], cores: int, home: Path) -> list[Case]:
    """Run all cases; each is printed as soon as it is there."""
    proof, cases = Proof(home, models), []

    def add(case: Case) -> None:
        cases.append(case)
        print(json.dumps(asdict(case)), flush=True)

    add(proof.case("local", None))
    for count in nodes:
        with cluster(count, cores, proof.scratch) as running:
            add(proof.case(f"ray-{count}", running.address))
    add(proof.node_killed(cores))
    add(proof.driver_killed(cores))
    return cases


def main() -> int:
    """Prove, print, write; fail where a case differs from the local executor's."""
    from transload.pipeline.commands.workspace import to_json
    from transload.pipeline.result.environment import describe_environment

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--nodes", default="1,2,4")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "cluster.json")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="tc-"))  # short: Ray's sockets lie below it
    try:
        with cluster(1, options.cores, home) as nodes:
            # In a process of its own: Ray ends one whose cluster has gone.
            command = [sys.executable, str(HERE / "overhead.py"), str(home), str(options.pairs)]
            environment = {**os.environ, "RAY_ADDRESS": nodes.address}
            printed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        overhead = json.loads(printed.splitlines()[-1])
        print(json.dumps(overhead), flush=True)
        cases = prove(options.models, [int(count) for count in options.nodes.split(",")], options.cores, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    import ray

    document = {
        "environment": to_json(describe_environment()), "ray": ray.__version__, "models": options.models,
        "load": os.getloadavg()[0], "overhead": overhead, "cases": [asdict(case) for case in cases],
    }  # fmt: skip
    options.out.write_text(json.dumps(document, indent=1) + "\n")
    bad = [case.name for case in cases if case.exit_code or case.different or case.left_processes]
    print(f"{len(cases) - len(bad)} of {len(cases)} cases equal the local executor's")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
