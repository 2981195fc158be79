"""From the record of a command to what its work takes: the model, the candidates, the request, the local settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...models.data_sources.data_argument import absolute_data
from ..commands.live_model_argument import name_reference
from ..options.option import CommandOptions
from ..options.reference_options import ReferenceOptions
from ..options.request import RunRequest, read_request
from ..plan.context import LocalSettings
from ..plan.model_argument import ModelRequest
from ..plan.recorded_source import RecordedSource, require_source
from ..progress.progress import Progress
from ..result.verified_artifact import artifacts_in


def local_settings(options: CommandOptions, jobs: int | None = None) -> LocalSettings:
    """Return the settings of this machine that a record has; `jobs` where it has no number."""
    changed = options.non_defaults()
    return LocalSettings.with_defaults(
        changed.get("store"), changed.get("runs"), changed.get("jobs") or jobs, executor=changed.get("executor"),
        sign_key=changed.get("sign_key"),
    )  # fmt: skip


def candidates_in(places: Sequence[object]) -> list[str]:
    """Return the candidates, with those of a folder of `convert` or of a run one by one."""
    return [text for place in places for text in artifacts_in(str(place))]


def reference_of(
    options: ReferenceOptions, candidates: Sequence[str], runs: Path, progress: Progress
) -> tuple[RunRequest, ModelRequest]:
    """Return the request, and the model that candidates are compared with: the one that is named, else the one that
    their records name. The file of a model that is an object is kept in `runs`. Raises BadRequest where nothing names
    it."""
    sections = options.sections()
    named: dict[str, Any] = sections.get("model", {})
    if options.against is not None:
        text, specs = name_reference(
            options.against, options.inputs, candidates, runs, progress, has_data=options.data is not None
        )
        model = ModelRequest(text, specs, data=options.data)
        return read_request(None, {**sections, "model": {**named, "recipe": text}}), model
    source = require_source(candidates)
    note = f"source: {source.text}, which {source.artifact} was made from; --against names another"
    progress.note(note, once="source")
    own, model = _recorded(source, named, options)
    request = read_request(None, {**sections, **own})
    return request.model_copy(update={"root": source.root}), model  # that its code was imported from


def _recorded(
    source: RecordedSource, named: Mapping[str, Any], options: ReferenceOptions
) -> tuple[dict[str, Any], ModelRequest]:
    """Return the sections of a request and the model that a record names, under what the user named beside it."""
    if any(named.get(name) for name in ("weights", "weights_key", "set")):
        source = replace(source, record=replace(source.record, weights=""))  # other weights are wanted
    data = absolute_data(options.data) or source.data
    model = ModelRequest(source.text, options.inputs or source.inputs, data=data, recorded=source)
    return {"model": source.section(named), "train": dict(source.record.train)}, model
