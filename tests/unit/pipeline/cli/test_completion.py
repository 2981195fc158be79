"""Completion in a shell: what each shell is answered, and where its script goes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from transload.converters.steps import STEPS
from transload.models.loading.code_refs import RECIPES
from transload.pipeline.cli import main
from transload.pipeline.cli.app import COMMANDS, COMPLETE_VARIABLE
from transload.pipeline.drift.metrics.metric_kinds import KINDS
from transload.serving.runtimes.runtime_table import RUNTIMES

Ask = Callable[..., list[str]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    def ask_as_bash(*words: str) -> list[str]:
        monkeypatch.setenv(COMPLETE_VARIABLE, "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["transload", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        assert main() == 0
        return capsys.readouterr().out.splitlines()

    return ask_as_bash


def test_every_command_is_completed(ask: Ask) -> None:
    assert ask("") == [command.name for command in COMMANDS]
    assert ask("con") == ["convert"]
    assert ask("store", "") == ["init", "ls", "gc", "verify"]


def test_values_are_those_of_the_tables(ask: Ask) -> None:
    assert set(ask("convert", "--to", "")) == {str(step.target) for step in STEPS}
    assert set(ask("validate", "--runtime", "")) == set(RUNTIMES)
    assert set(ask("run", "--metric", "")) == set(KINDS)
    assert ask("convert", "z") == [f"zoo:{name}" for name in RECIPES]
    assert ask("run", "z") == ask("validate", "x", "--against", "z") == ask("convert", "z")
    assert ask("bench", "--device", "c") == ["cpu", "cuda"]
    assert ask("new", "x", "--task", "s") == ["segmentation"]


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["convert", "--to", "onnx,tor"], ["onnx,torchscript"]),
        (["convert", "--to", "torchscript,tor"], []),
        (["convert", "--to", "tflite", ":", "int8-"], ["int8-dynamic"]),
        (["convert", "--to", "onnx,tflite", ":"], ["fp16", "int8", "int8-dynamic"]),
        (["convert", "--to", "=", "sav"], ["saved-model"]),
        (["convert", "--to", "=", "tflite", ":", "f"], ["fp16"]),
        (["convert", "zoo", ":", "digits-c"], ["digits-cnn"]),
        (["convert", "zoo", ":", "digits-cnn", "--qu"], ["--quiet"]),
        (["convert", ""], []),  # files, which the shell completes
        (["convert", "net.py", "--data", ""], []),
    ],
)
def test_bash_takes_colons_for_ends_of_words(words: list[str], completed: list[str], ask: Ask) -> None:
    assert ask(*words) == completed


@pytest.mark.parametrize("words", [["convert"], ["--help"]])
def test_the_variable_counts_only_where_a_shell_asks(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPLETE_VARIABLE, "complete_bash")
    monkeypatch.delenv("COMP_WORDS", raising=False)
    assert main(words) == (2 if words == ["convert"] else 0)
    assert main() == 1  # a shell that asks for nothing


def test_bash_itself_completes_without_a_framework(tmp_path: Path) -> None:
    script = """
    eval "$(transload --show-completion bash)"
    COMP_WORDS=(transload convert zoo : digits-v) COMP_CWORD=4
    _transload_completion transload
    echo "${COMPREPLY[@]}"
    """
    shim = tmp_path / "transload"
    heavy = "{'torch', 'tensorflow', 'onnx', 'onnxruntime', 'sklearn', 'keras'}"
    shim.write_text(
        f"#!{sys.executable} -P\nimport sys\nfrom transload.pipeline.cli import main\nstatus = main()\n"
        f"print(*sorted({heavy} & sys.modules.keys()), end='', file=sys.stderr)\nsys.exit(status)\n"
    )
    shim.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("digits-vit\n", "")


def test_the_script_is_installed_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["--install-completion", "bash"]) == 0
    path = tmp_path / ".bash_completions" / "transload.sh"
    assert capsys.readouterr().out == f"wrote {path}; open a new bash to use it\n"
    assert f"source '{path}'" in (tmp_path / ".bashrc").read_text()
    assert main(["--show-completion", "bash"]) == 0
    assert capsys.readouterr().out.strip() == path.read_text().strip()


def test_what_cannot_be_installed_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--show-completion", "ksh"]) == 2
    assert capsys.readouterr().err == (
        "error: --show-completion ksh: no such shell is completed\n"
        "  fix: name one: --show-completion bash|zsh|fish|powershell|pwsh\n"
    )
    (tmp_path / "home").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert main(["--install-completion", "fish"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: the completion of fish cannot be installed: ")
    assert "put what 'transload --show-completion fish' prints where your shell reads it (docs/install.md)" in error
