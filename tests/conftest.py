"""What every test may ask for."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from transload.pipeline.workers.engine import LocalExecutor
from transload.pipeline.workers.fork_server import ForkServer
from transload.pipeline.workers.isolation import Limits, start_fork_server

# `make test` sets it, because the processes of xdist would else have the repository's root first on their path. What
# tests start is started as a person starts it.
os.environ.pop("PYTHONSAFEPATH", None)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """What a test draws is the same whichever tests ran before it in its process: none passes by luck. Torch is not
    imported for it, as no process may have it beside TensorFlow."""
    random.seed(0)
    np.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where pytest clears up: TensorFlow leaves files behind in a process that ends at once, as those of xdist do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository, which is the package."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="module")
def loaded_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Workers are forked from processes that have torch or TensorFlow loaded, for all tests of a module, as those of
    one command are after its first: for tests in which many commands follow each other in this process."""
    folder = tmp_path_factory.mktemp("loaded")
    loaded: dict[str, ForkServer] = {}

    def of(executor: LocalExecutor, framework: str) -> ForkServer | None:
        if framework and framework not in loaded:
            loaded[framework] = start_fork_server(framework, Limits(), folder / framework)
        return loaded.get(framework)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalExecutor, "_fork_server", of)
        yield
    for each in loaded.values():
        each.close()
