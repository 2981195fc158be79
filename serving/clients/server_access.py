"""How a client reaches a server: plain or over TLS, with the bearer token of the environment.

TRANSLOAD_TOKEN holds the token. SSL_CERT_FILE, which OpenSSL has given that meaning, names the authorities that are
trusted in place of the usual ones.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...models.errors import BadRequest
from ..endpoint_security import is_loopback

TOKEN_VARIABLE = "TRANSLOAD_TOKEN"  # noqa: S105  (a name)
AUTHORITIES_VARIABLE = "SSL_CERT_FILE"
LACKS_CALL = ", and that the server has this call of the protocol"  # the mend of many a server that is not ours


def split_address(address: str) -> tuple[str, bool]:
    """Return HOST:PORT of an address, and whether it is spoken to over TLS, as https:// or grpcs:// say."""
    scheme, separator, place = address.partition("://")
    return (place, scheme in ("https", "grpcs")) if separator else (address, False)


def authorization(address: str) -> dict[str, str]:
    """Return the header that carries the token of the environment; none without a token.
    Raises BadRequest where others could read it on the way."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        return {}
    place, is_tls = split_address(address)
    if not (is_tls or is_loopback(place.rpartition(":")[0].strip("[]"))):
        raise BadRequest(
            f"the token of {TOKEN_VARIABLE} could be read on its way to {place}",
            fix=f"use https:// or grpcs://, or unset {TOKEN_VARIABLE}",
        )
    return {"authorization": f"Bearer {token}"}


def authorities() -> bytes | None:
    """Return the certificates of the authorities to trust, as PEM; None for the usual ones.
    Raises BadRequest where the named file cannot be read."""
    path = os.environ.get(AUTHORITIES_VARIABLE)
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadRequest(
            f"{AUTHORITIES_VARIABLE}={path} cannot be read: {error.strerror}", fix="check the path, or unset it"
        ) from error
