"""--executor names where steps are done, and is refused in one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.options.request import read_request
from transload.pipeline.workers.executor_choice import ExecutorChoice, parse_executor


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("local", ExecutorChoice()),
        ("ray", ExecutorChoice("ray")),
        ("ray://head-1.example:10001", ExecutorChoice("ray", "ray://head-1.example:10001")),
        ("ray://[::1]:10001", ExecutorChoice("ray", "ray://[::1]:10001")),
    ],
)
def test_the_executor_is_a_word_or_an_address(text: str, choice: ExecutorChoice) -> None:
    assert parse_executor(text) == choice


@pytest.mark.parametrize("text", ["", "dask", "ray:", "ray://", "ray://host", "ray://host:0", "ray://host:70000"])
def test_what_is_neither_is_refused_with_what_is_taken(text: str) -> None:
    with pytest.raises(BadRequest, match="unknown executor") as caught:
        parse_executor(text)
    assert "ray://HOST:PORT" in caught.value.fix


def test_the_pipeline_file_names_it_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text('[engine]\nexecutor = "ray"\n')
    assert read_request(file).engine.executor == "ray"
    file.write_text('[engine]\nexecutor = "dask"\n')
    with pytest.raises(BadRequest, match=r"line 2: engine.executor: unknown executor 'dask'"):
        read_request(file)


CONVERT = """
import sys
from pathlib import Path
from transload.pipeline.commands.workspace import new_context
from transload.pipeline.plan.context import LocalSettings
from transload.pipeline.progress.progress import Progress
from transload.pipeline.options.request import read_request
new_context(read_request(None), Path("run"), LocalSettings(executor={executor!r}), Progress(quiet=True))
print("loaded:", *({{"ray", "fsspec", "transload.pipeline.extras.cluster.ray_executor"}} & sys.modules.keys()))
"""


@pytest.mark.parametrize(("executor", "loaded"), [("local", []), (None, [])])
def test_nothing_of_ray_is_imported_unless_it_is_named(executor: str | None, loaded: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", CONVERT.format(executor=executor)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split(":")[1].split() == loaded


def test_without_ray_the_executor_is_a_missing_tool(tmp_path: Path) -> None:
    """The import of Ray is refused in the process, so that this holds where Ray is installed, too."""
    program = "import sys; sys.modules['ray'] = None\n" + CONVERT.format(executor="ray")
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the executor ray needs ray, which is not installed" in done.stderr
    assert "pip install 'transload[ray]'" in done.stderr
