"""What a user names is a plain file: a pipe would be waited for without end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from transload.models.data_sources.data_argument import DataKind, source_digest
from transload.models.errors import BadRequest
from transload.pipeline.options.toml_file import read_toml
from transload.pipeline.result.list_records import read_model_row
from transload.pipeline.result.schema import read_result
from transload.serving.endpoint_security import read_security
from transload.serving.server.repository.batching_parameters import read_batching_file
from transload.serving.server.repository.model_config import read_config_file
from transload.serving.server.repository.version_check import _read_golden

READERS: dict[str, Callable[[Path], object]] = {
    "run.json": read_result,
    "--model-config-file": read_config_file,
    "--batching-parameters-file": read_batching_file,
    "--token-file": lambda path: read_security(None, None, None, path),
    "golden.json": _read_golden,
    "pipeline.toml": lambda path: read_toml(path, "pipeline file", "docs"),
    "an image": lambda path: source_digest(DataKind.IMAGES, str(path.parent)),
    "a table": lambda path: source_digest(DataKind.TABLE, str(path)),
}


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError("it waits for the pipe")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_is_refused(name: str, tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "p.png")
    with pytest.raises(BadRequest, match="is no file but a pipe, a socket or a device"):
        READERS[name](path)


def test_a_models_record_that_is_a_pipe_is_none(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "model.json")
    assert read_model_row(path) is None
