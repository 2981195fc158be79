"""index.html of a list of models: one page that opens offline, with links into the folder of each model."""

from __future__ import annotations

from urllib.parse import quote

from ... import __version__
from ..result.list_records import ListCommand, ListResult, ModelRow
from . import units
from .models_text import cause_count, cause_title, lines_of_model, list_headline
from .offline_page import render_page

_RECORDS = {ListCommand.CONVERT: "convert.json", ListCommand.VALIDATE: "validate.json", ListCommand.RUN: "run.json"}


def render_models_page(result: ListResult) -> str:
    """Return the page as text."""
    names = sorted({target.target for row in result.models for target in row.targets})
    return render_page(
        "models.html.j2",
        (),
        version=__version__,
        result=result,
        headline=list_headline(result),
        causes=[(cause, cause_title(cause), cause_count(cause)) for cause in result.causes],
        rows=[(row, lines_of_model(row), _links(row, result.command)) for row in result.models],
        targets=len(names),
        link=quote,
    )


def _links(row: ModelRow, command: ListCommand) -> list[tuple[str, str]]:
    """Return the words and addresses of a model's own results."""
    if row.folder is None:
        return []
    report = [("report", row.report)] if row.report else []
    places = [(_RECORDS[command], f"{row.folder}/{_RECORDS[command]}")] if row.targets else []
    places += [("logs", f"{row.folder}/logs/"), ("repeat", f"{row.folder}/repeat/")]
    return [(word, quote(units.plain(path))) for word, path in (*report, *places)]
