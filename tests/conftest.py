"""What every test may ask for."""

from __future__ import annotations

import gc
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from transload.models.processors import core_count
from transload.pipeline.workers.engine import Action, LocalExecutor
from transload.pipeline.workers.fork_server import LOADED, ForkServer
from transload.pipeline.workers.isolation import Limits, start_fork_server

# `make test` sets it, because the processes of xdist would else have the repository's root first on their path. What
# tests start is started as a person starts it.
os.environ.pop("PYTHONSAFEPATH", None)

# What most steps import of ours.
OF_STEPS = (
    "transload.pipeline.drift.jobs", "transload.models.loading.source_from_code", "transload.pipeline.locate.capture",
    "transload.converters.readers.artifact_import", "transload.models.data_sources.take_samples", "onnx",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """What a test draws is the same whichever tests ran before it in its process: none passes by luck. Torch is not
    imported for it, as no process may have it beside TensorFlow."""
    random.seed(0)
    np.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture(scope="module", autouse=True)
def _short_collections() -> None:
    """Leave what is loaded out of the tests' collections of garbage. TensorFlow's and torch's converters start a full
    one per conversion, and going through pytest's and the frameworks' own objects took longer than the conversion."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where pytest clears up: TensorFlow leaves files behind in a process that ends at once, as those of xdist do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
        yield


@pytest.fixture(scope="session", autouse=True)
def machine_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A key of the machine's own for stores, beside that of the person who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("TRANSLOAD_STORE_KEY", raising=False)
        patch.delenv("TRANSLOAD_STORE_KEY_FILE", raising=False)
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository, which is the package."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def fork_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, int], ForkServer]]:
    """Processes that have a framework loaded, by its name and their threads, for all modules with `loaded_once`."""
    servers: dict[tuple[str, int], ForkServer] = {}
    yield servers
    for server in servers.values():
        server.close()


@pytest.fixture(scope="module")
def loaded_once(
    fork_servers: dict[tuple[str, int], ForkServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Fork workers from processes that stay for all tests, as those of one command are after its first: for tests in
    which many commands follow each other in this process."""

    def find(executor: LocalExecutor, action: Action) -> ForkServer | None:
        if not (framework := action.framework):
            return None
        # As Context.limits has them: a worker with another number of threads is not forked.
        limits = Limits(threads=max(1, core_count() // executor._slots.count))
        key = framework, limits.threads
        if key not in fork_servers:
            # These serve hundreds of commands: what of ours most steps import is loaded beside each framework, too.
            with pytest.MonkeyPatch.context() as loaded:
                loaded.setitem(LOADED, framework, (*LOADED[framework], *OF_STEPS))
                fork_servers[key] = start_fork_server(framework, limits, tmp_path_factory.mktemp("loaded"))
        return fork_servers[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalExecutor, "_fork_server", find)
        yield
