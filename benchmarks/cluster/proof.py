"""Many models through `convert` on a Ray cluster, held against the local executor's results.

    python benchmarks/cluster/proof.py [--models zoo:60|nets:4] [--to onnx] [--cases local,ray-1,...]
        [--store folder|s3] [--home DIR] [--pairs 60] [--cores 1] [--out FILE.json]

Each case begins with an empty store. In two cases something is killed in the middle: a node, or the command itself.
Compared are the results of all steps (key, digest, refusals), every file of the artifacts but their statements, which
hold the time, and each convert.json but for its times. Seconds on one machine say nothing about several: the nodes
share its cores. With --home, cases that are recorded there are not run again. The local executor's store is a folder.
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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
if __name__ == "__main__":
    sys.path.append(str(HERE))

from proof_models import ChosenModels, choose_models  # noqa: E402
from proof_stores import CaseStore, FolderStore, bucket_store  # noqa: E402

TRANSLOAD = [sys.executable, "-P", "-m", "transload"]
CASES = ("local", "ray-1", "ray-2", "ray-4", "node-killed", "driver-killed")
_MARK = "TRANSLOAD_PROOF_HOME"  # in the environment of whatever a case starts
_LIMIT_S = 3600
_TIMES = ("seconds", "peak_rss_bytes")
_WITH_TIME = ("provenance.json", "SHA256SUMS")  # the second names the digest of the first


@dataclass
class Case:
    """One pass over all models, and what differs from the local executor's."""

    name: str
    store: str  # "folder" or "s3"
    seconds: float
    exit_code: int
    steps: int  # with a result in the store at the end, refusals included
    kept: int = 0  # of them those that were there when the case was cut short, and were not done again
    different: tuple[str, ...] = ()  # steps whose result differs from the local one, or is missing, or is one more
    different_files: tuple[str, ...] = ()  # of artifacts and documents, likewise
    files: int = 0  # that were compared
    left_processes: int = 0  # of the command and its steps, once it has ended
    left_of_cluster: int = 0  # of anything that the case has started, once the cluster has ended
    load: float = 0.0  # of the machine, over the last minute

    @property
    def differs(self) -> bool:
        """Whether it is not as the local executor's, or has left a process."""
        return bool(self.different or self.different_files or self.left_processes or self.left_of_cluster)


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
def cluster(nodes: int, cores: int, scratch: Path, variables: Mapping[str, str]) -> Iterator[Nodes]:
    """Start a cluster on this machine until the end of the block."""
    scratch.mkdir(exist_ok=True)
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    own = {"RAY_USAGE_STATS_ENABLED": "0", "TMPDIR": str(scratch), "PYTHONPATH": path}
    command = [sys.executable, "-P", str(HERE / "ray_nodes.py"), str(nodes), str(cores)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, **own, **variables},
    ) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout
        addresses = (line.partition("address=")[2].strip() for line in process.stdout if "address=" in line)
        try:
            yield Nodes(process, next(addresses))
        finally:
            process.stdin.close()
            process.wait(120)


@dataclass(frozen=True)
class Results:
    """What a case has made, without times."""

    steps: Mapping[str, Any]  # by the name in the store
    files: Mapping[str, str]  # digests by path


class Proof:
    """Runs cases in a folder. Each is recorded there as soon as it is over, and not run again."""

    def __init__(self, home: Path, models: ChosenModels, kind: str, cores: int) -> None:
        self.home, self.models, self.kind, self.cores = home, models, kind, cores

    def run(self, name: str) -> Case:
        """Return the record of a case; run the case first where it has none."""
        record = self.home / "cases" / f"{name}.json"
        if record.is_file():
            return Case(**json.loads(record.read_text()))
        for folder in (
            self.home / name,
            self.home / f"{name}.store",
            self.home / f"{name}.caches",
            self.home / "nodes",
        ):
            shutil.rmtree(folder, ignore_errors=True)
        with self._store(name) as store:
            case = self._run(name, store)
        if name == "local":
            self._write("reference.json", asdict(self._results(name, FolderStore(self.home / f"{name}.store"))))
        record.parent.mkdir(exist_ok=True)
        self._write(f"cases/{name}.json", asdict(case))
        if name != "local" and not (case.different or case.different_files):
            for folder in (self.home / f"{name}.store", self.home / f"{name}.caches"):
                shutil.rmtree(folder, ignore_errors=True)
        return case

    def _run(self, name: str, store: CaseStore) -> Case:
        if name == "local":
            start = time.monotonic()
            code = self._start(name, store, None).wait(_LIMIT_S)
            return self._case(name, store, code, time.monotonic() - start)
        kind, _, count = name.partition("-")
        scenario: Callable[[str, CaseStore, Nodes], Case] = {
            "node-killed": self._node_killed, "driver-killed": self._driver_killed,
        }.get(name, self._undisturbed)  # fmt: skip
        nodes = int(count) if kind == "ray" else 2
        variables = {**store.variables, _MARK: str(self.home), "TRANSLOAD_STORE_CACHE": str(self._cache(name, "nodes"))}
        with cluster(nodes, self.cores, self.home / "nodes", variables) as running:
            case = scenario(name, store, running)
        case.left_of_cluster = self._left(lambda: self._processes(with_cluster=True))
        return case

    def _undisturbed(self, name: str, store: CaseStore, nodes: Nodes) -> Case:
        start = time.monotonic()
        code = self._start(name, store, nodes.address).wait(_LIMIT_S)
        return self._case(name, store, code, time.monotonic() - start)

    def _node_killed(self, name: str, store: CaseStore, nodes: Nodes) -> Case:
        """Two nodes, of which one is killed once a third of the steps are there."""
        start = time.monotonic()
        process = self._start(name, store, nodes.address)
        before = self._wait_for_third(store, process)
        nodes.kill_one()
        code = process.wait(_LIMIT_S)
        return self._case(name, store, code, time.monotonic() - start, before)

    def _driver_killed(self, name: str, store: CaseStore, nodes: Nodes) -> Case:
        """Two nodes; the command is killed once a third of the steps are there, and given again."""
        start = time.monotonic()
        process = self._start(name, store, nodes.address)
        self._wait_for_third(store, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        left = self._left(self._processes)
        before = {step: store.read(step) for step in store.names()}
        code = self._start(name, store, nodes.address).wait(_LIMIT_S)
        case = self._case(name, store, code, time.monotonic() - start, before)
        case.left_processes += left
        return case

    def _start(self, name: str, store: CaseStore, address: str | None) -> subprocess.Popen[bytes]:
        """Start the command of a case. `address`: a cluster's; None: the local executor."""
        words = ["convert", str(self.models.file), "--quiet", "--out", str(self.home / name), "--store", store.place]
        variables = {
            **store.variables,
            _MARK: str(self.home),
            "TRANSLOAD_STORE_CACHE": str(self._cache(name, "driver")),
        }
        if address:
            words += ["--executor", "ray"]
            variables["RAY_ADDRESS"] = address
        log = (self.home / f"{name}.log").open("ab")
        environment = {**os.environ, **variables}
        return subprocess.Popen([*TRANSLOAD, *words], stdout=log, stderr=log, env=environment, cwd=self.home)

    def _case(
        self, name: str, store: CaseStore, code: int, seconds: float, before: Mapping[str, Any] | None = None
    ) -> Case:
        """Compare what a case has made. `before`: the records of the steps when it was cut short."""
        left = self._left(self._processes)
        results = self._results(name, store)
        kept = sum(store.read(step) == record for step, record in (before or {}).items() if step in results.steps)
        case = Case(
            name, "folder" if isinstance(store, FolderStore) else "s3", round(seconds, 1), code, len(results.steps),
            kept, files=len(results.files), left_processes=left, load=os.getloadavg()[0],
        )  # fmt: skip
        if name != "local":
            reference = Results(**json.loads((self.home / "reference.json").read_text()))
            labels = {step: record["step"] or step for step, record in {**results.steps, **reference.steps}.items()}
            case.different = tuple(labels[step] for step in _differing(results.steps, reference.steps))
            case.different_files = tuple(_differing(results.files, reference.files))
        return case

    def _results(self, name: str, store: CaseStore) -> Results:
        steps = {step: _of_step(store.read(step)) for step in sorted(store.names())}
        out = self.home / name
        files = {}
        for model in self.models.names:
            paths = [path for path in (out / model).glob("*/**/*") if path.is_file()]
            inside = {path.relative_to(out) for path in paths} - {Path(model, "logs"), Path(model, "repeat")}
            for path in sorted(inside):
                if path.parts[1] not in ("logs", "repeat", ".scratch") and path.name not in _WITH_TIME:
                    files[str(path)] = sha256(_without_commit(out / path)).hexdigest()
            document = out / model / "convert.json"
            text = document.read_text().replace(str(out), "OUT") if document.is_file() else "{}"
            plain = json.dumps(_without_times(json.loads(text)), sort_keys=True)
            files[f"{model}/convert.json"] = sha256(plain.encode()).hexdigest()
        return Results(steps, files)

    def _wait_for_third(self, store: CaseStore, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """Wait until a case has finished a third of its steps; return their records."""
        count = len(json.loads((self.home / "reference.json").read_text())["steps"]) // 3
        while process.poll() is None and len(store.names()) < count:
            time.sleep(0.2)
        if process.poll() is not None:
            raise RuntimeError(f"the command ended with {process.returncode} before it could be cut short")
        return {step: store.read(step) for step in store.names()}

    def _processes(self, *, with_cluster: bool = False) -> list[int]:
        """Processes that work in the home folder: the command, workers, and what holds frameworks for them.
        `with_cluster`: all that have the case's mark in their environment, too."""
        mark = f"{_MARK}={self.home}".encode()
        here = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if not entry.name.isdigit() or int(entry.name) == os.getpid():
                    continue
                if (entry / "cwd").readlink().is_relative_to(self.home) or (
                    with_cluster and mark in (entry / "environ").read_bytes().split(b"\0")
                ):
                    here.append(int(entry.name))
        return here

    @staticmethod
    def _left(processes: Callable[[], Sequence[int]]) -> int:
        """Return how many processes are still there after at most 30 s."""
        end = time.monotonic() + 30
        while processes() and time.monotonic() < end:
            time.sleep(0.5)
        return len(processes())

    @contextlib.contextmanager
    def _store(self, name: str) -> Iterator[CaseStore]:
        if self.kind == "folder" or name == "local":
            yield FolderStore(self.home / f"{name}.store")
        else:
            with bucket_store(name, self.home / "s3.log") as store:
                yield store

    def _cache(self, name: str, who: str) -> Path:
        """Return the folder in which one side keeps what is behind the URL; the nodes share one."""
        return self.home / f"{name}.caches" / who

    def _write(self, name: str, document: Any) -> None:
        (self.home / f"{name}.half").write_text(json.dumps(document))
        (self.home / f"{name}.half").replace(self.home / name)


def _of_step(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a step's record must be the same everywhere: its digest, or the error that it ends in."""
    if "digest" in record:
        return {"step": record["step"], "digest": record["digest"], "facts": _without_times(record["facts"])}
    return {"step": "", "refusal": dict(record)}


def _without_commit(path: Path) -> bytes:
    """Return the content of a file; of a card without the state of the checkout, which a commit meanwhile changes."""
    if path.name == "README.md":
        return b"\n".join(line for line in path.read_bytes().splitlines() if not line.startswith(b"| commit |"))
    if path.name == "card.json":
        return json.dumps(_without_times(json.loads(path.read_text()), ("commit", "changed"))).encode()
    return path.read_bytes()


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _without_times(document: Any, names: Collection[str] = _TIMES) -> Any:
    if isinstance(document, dict):
        return {key: _without_times(value, names) for key, value in document.items() if key not in names}
    return [_without_times(value, names) for value in document] if isinstance(document, list) else document


def measured_overhead(home: Path, cores: int, pairs: int) -> dict[str, Any]:
    """Return what overhead.py prints, from a cluster of one node; recorded in the home folder."""
    record = home / "overhead.json"
    if not record.is_file():
        with cluster(1, cores, home / "nodes", {_MARK: str(home)}) as nodes:
            # In a process of its own: Ray ends one whose cluster has gone.
            command = [sys.executable, str(HERE / "overhead.py"), str(home / "overhead"), str(pairs)]
            environment = {**os.environ, "RAY_ADDRESS": nodes.address}
            printed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        record.write_text(printed.splitlines()[-1])
    overhead: dict[str, Any] = json.loads(record.read_text())
    return overhead


def write_results(path: Path, options: argparse.Namespace, models: ChosenModels, parts: Mapping[str, Any]) -> None:
    """Write the figures; those of a run over other models are kept under `earlier`."""
    import ray

    from transload.pipeline.commands.workspace import to_json
    from transload.pipeline.result.environment import describe_environment

    former = json.loads(path.read_text()) if path.is_file() else {}
    earlier = former.pop("earlier", [])
    if former and former.get("models") != options.models:
        earlier.append(former)
    document = {
        "environment": to_json(describe_environment()), "ray": ray.__version__, "models": options.models,
        "targets": options.to, "chosen": models.how, "names": list(models.names), "cores_of_a_node": options.cores,
        **parts, "earlier": earlier,
    }  # fmt: skip
    path.write_text(json.dumps(document, indent=1) + "\n")


def main() -> int:
    """Prove, print, write; fail where a case differs from the local executor's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", default="nets:4")
    parser.add_argument("--to", default="onnx")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--store", choices=("folder", "s3"), default="folder")
    parser.add_argument("--home", type=Path, help="resumable: what is recorded there is not done again")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "cluster.json")
    options = parser.parse_args()
    names = options.cases.split(",")
    if unknown := set(names) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    home = options.home or Path(tempfile.mkdtemp(prefix="tc-"))  # short: Ray's sockets lie below it
    home = home.absolute()
    home.mkdir(exist_ok=True, parents=True)
    try:
        overhead = measured_overhead(home, options.cores, options.pairs)
        print(json.dumps(overhead), flush=True)
        models = choose_models(options.models, options.to.split(","), home / "models")
        proof, cases = Proof(home, models, options.store, options.cores), []
        for name in names:
            cases.append(proof.run(name))
            print(json.dumps(asdict(cases[-1])), flush=True)
            write_results(options.out, options, models, {"overhead": overhead, "cases": list(map(asdict, cases))})
    finally:
        if options.home is None:
            shutil.rmtree(home, ignore_errors=True)
    # A model that is refused as a bad input here has to be refused there, too: the exit status is no longer 0.
    local = next((case.exit_code for case in cases if case.name == "local"), 0)
    bad = [case.name for case in cases if case.exit_code != local or case.differs]
    print(f"{len(cases) - len(bad)} of {len(cases)} cases equal the local executor's")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
