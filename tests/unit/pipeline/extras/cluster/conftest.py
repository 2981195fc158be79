"""A store, a folder of small steps, and the executors of the contract; that of Ray is skipped without it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from transload.models.store import Store
from transload.pipeline.workers.engine import Action, LocalExecutor
from transload.pipeline.workers.isolation import Limits
from transload.pipeline.workers.worker_slots import WorkerSlots

JOBS = """
import os, time
from transload.models.errors import Refused

def count(job):
    with open(job.options["tally"], "a") as file: file.write("x")
def write(job):
    count(job); print("wrote it")
    (job.out / "file").write_text(job.options["text"] + "".join((p / "file").read_text() for p in job.inputs.values()))
    return {"n": len(job.options["text"])}
def refuse(job): count(job); raise Refused("operator Foo is not carried", fix="use Bar")
def die(job): count(job); os.abort()
def sleep(job):
    with open(job.options["tally"], "a") as file: file.write(f"{os.getpid()} ")
    time.sleep(job.options["seconds"]); return {}
"""


@pytest.fixture(scope="session")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the module cluster_jobs, which this process and those that it starts can import."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "cluster_jobs.py").write_text(JOBS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH")))))
        yield folder


@pytest.fixture
def make_action(jobs: Path, tmp_path: Path) -> Callable[..., Action]:
    """Make an action of cluster_jobs by its name; keywords are options beside the tally and the text."""

    def make(name: str, **options: object) -> Action:
        options = {"tally": str(tmp_path / "tally"), "text": "hello", **options}
        limits = Limits(seconds=60, walled=False, memory_bytes=1 << 30)
        return Action(f"step.{name}", f"cluster_jobs:{name}", options=options, root=str(jobs), limits=limits)

    return make


@pytest.fixture(scope="session")
def cluster_address(jobs: Path) -> Iterator[str]:
    """The address of a cluster of two nodes on this machine, of a process each; `jobs` can be imported there."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    program = Path(__file__).with_name("two_nodes.py")
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-P", str(program), str(jobs)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdin
        assert process.stdout
        lines = (line.partition("address=") for line in process.stdout)
        yield next(address.strip() for _, found, address in lines if found)
        process.stdin.close()  # it ends its nodes
        process.wait(60)


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.slow)])
def executor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalExecutor]:
    """An executor over a new store, with its run's folder."""
    store, run = Store(tmp_path / "store", tmp_path / "run"), tmp_path / "run"
    if request.param == "local":
        made = LocalExecutor(store, run)
    else:
        from transload.pipeline.extras.cluster.ray_cluster import connect
        from transload.pipeline.extras.cluster.ray_executor import RayExecutor

        address = request.getfixturevalue("cluster_address")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", address)
            made = RayExecutor(store, run, WorkerSlots(4), connect(None))
    yield made
    made.close()
    store.close()
