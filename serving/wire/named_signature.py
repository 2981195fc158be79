"""The signature that a request in JSON names, found before the request is parsed: it says where that is done."""

from __future__ import annotations

import re

_KEY = b'"signature_name"'
_NAMED = re.compile(_KEY + rb'\s*:\s*"([^"\\]*)"')


def named_signature(body: bytes) -> str:
    """Return the signature that a request may name, empty where it names none. The key may stand in another place of
    the document, so that the parsed request has to be held against it: no text holds the word between bare quotes."""
    at = body.find(_KEY)
    named = _NAMED.match(body, at) if at >= 0 else None
    return named[1].decode(errors="replace") if named else ""
