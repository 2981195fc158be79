"""The hook of pre-commit: what it calls, and what that says of a pipeline file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from transload.pipeline.show.ci.pipeline_check import check_pipelines


def test_the_hook_names_the_check(root: Path) -> None:
    (hook,) = yaml.safe_load((root / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "python -m transload.pipeline.show.ci.pipeline_check"


def test_every_pipeline_file_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text("[gate]\nsize = 1\n")
    bad.write_text("[gate]\nsiz = 1\n")
    assert check_pipelines([str(good)]) == 0
    assert capsys.readouterr().err == ""
    assert check_pipelines([str(bad), str(good), str(tmp_path / "none.toml")]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {bad}, line 2: unknown key 'gate.siz'",
        "  fix: did you mean 'size'?",
        f"error: {tmp_path}/none.toml cannot be read: No such file or directory",
        "  fix: name a pipeline file (docs/pipeline-file.md)",
    ]
    assert check_pipelines([]) == 2
