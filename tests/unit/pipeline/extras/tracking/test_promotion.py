"""Which runs move an alias: those that passed, and those that --force names."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.commands import record as record_command
from transload.pipeline.commands.record import RecordResult, record, record_lines, send_run
from transload.pipeline.extras.tracking import run_record
from transload.pipeline.extras.tracking.model_versions import LoggedModel
from transload.pipeline.options.request import MlflowSection
from transload.pipeline.result.schema import Verdict

from ...show import samples

SECTION = MlflowSection(uri="http://127.0.0.1:9", model="net", experiment="e", promote="champion")


def sent(folder: Path, verdict: Verdict, monkeypatch: pytest.MonkeyPatch, **options: Any) -> RecordResult:
    """Send a run of that verdict to a server that has it already, with one model."""
    (folder / "run.json").write_text("{}")
    client = SimpleNamespace(
        get_experiment_by_name=lambda _name: SimpleNamespace(experiment_id="1"),
        search_runs=lambda *_, **__: [SimpleNamespace(info=SimpleNamespace(run_id="r"))],
    )
    model = LoggedModel("onnx", "m-1")

    def register(*_: Any, alias: str | None, **__: Any) -> list[LoggedModel]:
        return [replace(model, registered="net-onnx", version="1", alias=alias)]

    monkeypatch.setattr(
        record_command, "connect", lambda _: nullcontext(SimpleNamespace(address="http://h", client=client))
    )
    monkeypatch.setattr(run_record, "_logged_models", lambda *_: [model])
    monkeypatch.setattr(run_record, "register_versions", register)
    run = replace(samples.result(), verdict=verdict, exit_code={"pass": 0, "fail": 1, "inconclusive": 3}[verdict])
    return send_run(folder, run, SECTION, **options)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("verdict", Verdict)
def test_the_alias_moves_for_a_pass_alone_or_by_force(
    verdict: Verdict, force: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = sent(tmp_path, verdict, monkeypatch, force=force)
    is_pass = verdict is Verdict.PASS
    assert (done.record.models[0].alias == "champion") == (is_pass or force)
    assert done.document["forced"] == (force and not is_pass)
    assert done.exit_code == (0 if is_pass or force else {"fail": 1, "inconclusive": 3}[verdict])
    last = record_lines(done)[-1]
    if is_pass:
        assert last == "  onnx: models:/net-onnx@champion"
    elif force:
        assert last == f"  champion was moved by --force: the verdict of the run is {verdict}"
    else:
        assert last == f"  nothing is registered, and champion stays where it is: the verdict of the run is {verdict}"


def test_force_without_an_alias_is_refused(tmp_path: Path) -> None:
    section = SECTION.model_copy(update={"promote": None})
    with pytest.raises(BadRequest, match="--force moves an alias, and none is named"):
        record(tmp_path, section, force=True)
