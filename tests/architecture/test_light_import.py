"""What must answer at once loads no framework; and the proof of that can fail."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "tensorflow", "onnxruntime", "onnx", "sklearn", "keras", "lightning_fabric", "grpc", "ai_edge_litert")
SLOW = ("pydantic", "scipy", "numpy", "typer", "rich", "plotly")  # not frameworks, and too slow for --help
CLI = "from transload.pipeline.cli import main; import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()): "


def loaded(statement: str, among: tuple[str, ...]) -> set[str]:
    """Which of `among` a fresh interpreter has loaded after `statement`."""
    code = f"import sys\n{statement}\nprint('loaded:', *({among!r} & sys.modules.keys()))"
    code = code.replace(repr(among), repr(set(among)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].removeprefix("loaded:").split())


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"]])
def test_help_and_version_load_neither_framework_nor_slow_library(words: list[str]) -> None:
    assert loaded(f"{CLI} main({words!r})", (*HEAVY, *SLOW)) == set()


def test_importing_the_package_loads_nothing_of_ours_either() -> None:
    everything = (*HEAVY, *SLOW, "transload.pipeline", "transload.models")
    assert loaded("import transload; transload.__version__", everything) == set()


@pytest.mark.parametrize("command", ["zoo", "formats", "doctor", "new"])
def test_commands_that_look_load_no_framework(command: str) -> None:
    assert loaded(f"{CLI} main([{command!r}, '--help'])", HEAVY) == set()
    if command != "new":
        assert loaded(f"{CLI} main([{command!r}, '--json'])", HEAVY) == set()


@pytest.mark.parametrize("command", ["run", "record", "history", "convert"])
def test_mlflow_is_not_imported_unless_it_is_asked_for(command: str) -> None:
    imports = f"import transload.pipeline.api, transload.pipeline.commands.run, transload.pipeline.cli.{command}"
    assert loaded(imports, ("mlflow", "requests")) == set()


@pytest.mark.parametrize("module", HEAVY)
def test_the_check_can_fail(module: str) -> None:
    assert loaded(f"sys.modules[{module!r}] = sys", HEAVY) == {module}
