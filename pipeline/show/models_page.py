"""index.html of a list of models: one page that opens offline, with links into the folder of each model."""

from __future__ import annotations

from urllib.parse import quote

from ... import __version__
from ..result.list_records import ListResult
from .models_text import cause_count, cause_title, list_headline, target_table
from .offline_page import render_page


def render_models_page(result: ListResult) -> str:
    """Return the page as text."""
    return render_page(
        "models.html.j2",
        (),
        version=__version__,
        result=result,
        headline=list_headline(result),
        causes=[(cause, cause_title(cause), cause_count(cause)) for cause in result.causes],
        targets=target_table(result).grouped("model", "source"),
        link=quote,
    )
