"""Text that stays text in GitHub's Markdown."""

from __future__ import annotations

import re

from . import units


def escaped(text: str) -> str:
    """Text that Markdown, a table cell and HTML leave as it is; it mentions nobody and links nowhere."""
    flat = units.plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]#|~])", r"\\\1", flat).replace("@", "&#64;").replace("://", "&#58;//")
