"""What a foreign error says, as far as a sentence of ours can carry it; the whole of it is in the log."""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[\d;]*m")  # as torch's exporter writes them for a terminal


def first_line(error: object, most: int = 200, *, skip: tuple[str, ...] = (), nothing: str | None = None) -> str:
    """The first line of an error, or of its text, that says anything, up to `most` characters of it. Lines that begin
    with one of `skip` say nothing. Where no line does: `nothing`, or the error's class."""
    lines = (line.strip() for line in _COLOUR.sub("", text_of(error)).splitlines())
    found = next((line for line in lines if line and not line.startswith(skip)), None)
    if found is None:
        return type(error).__name__ if nothing is None else nothing
    return found[:most]


def text_of(error: object) -> str:
    """What an error says; nothing, where its own code fails to say it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  (it is anybody's code)
        return ""
