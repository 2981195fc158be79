"""The container's health check: it runs as the Dockerfile has it, and tells whether the models answer."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from transload.models.errors import StepFailed
from transload.serving.server.http_server import HttpServer
from transload.serving.server.repository.model_config import ModelConfig
from transload.serving.server.repository.model_repository import Repository
from transload.serving.server.repository.served_version import OpenedSession
from transload.serving.server.repository.version_keeper import VersionSource

DOCKERFILE = Path(__file__).parents[4] / "Dockerfile"


def check(port: int) -> int:
    text = DOCKERFILE.read_text().partition("HEALTHCHECK ")[2]
    words = json.loads(text.partition("CMD ")[2].splitlines()[0].replace("127.0.0.1:8501", f"127.0.0.1:{port}"))
    done = subprocess.run([sys.executable, *words[1:]], check=False, capture_output=True, timeout=60)
    return done.returncode


def test_the_container_is_healthy_as_long_as_all_models_answer(one_session: Any, until: Any, tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "artifact.json").touch()
    processes: list[threading.Event] = []

    def open_once(source: VersionSource, lost: threading.Event) -> OpenedSession:
        if processes:
            raise StepFailed("it ends as it starts", fix="")
        processes.append(lost)
        return OpenedSession(one_session(), "numpy", lost)

    repository = Repository(open_once)
    repository.apply([ModelConfig("m", tmp_path)])
    server = HttpServer(repository, "127.0.0.1", 0)
    try:
        assert check(server.port) == 0
        processes[0].set()
        until(lambda: not repository.is_available)
        assert check(server.port) != 0
    finally:
        server.close()
        repository.close()


@pytest.mark.parametrize("option", ["--start-period=300s"])
def test_loading_may_take_long(option: str) -> None:
    """Whoever restarts unhealthy containers would else never see a large model answer."""
    assert option in DOCKERFILE.read_text()
