"""Who may talk to a server, and whether others can read it: TLS, client certificates, a bearer token, web pages."""

from __future__ import annotations

import hmac
import ipaddress
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..models.errors import BadRequest
from ..models.untrusted_files import read_plain

UNIX = "unix:"  # begins a --host that is a folder, with a socket of each protocol in it
_LEAST_CHARACTERS = 16  # of a token: fewer can be guessed
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")  # b64token of RFC 6750
_SCHEME = b"Bearer "
_ORIGIN = re.compile(r"https?://[a-z0-9.\[\]:-]+")  # as browsers write it: in lower case, without a path
_LISTS = "is not this server's; --origin lists pages that may ask it, and --token-file asks all for a token"


@dataclass(frozen=True, slots=True)
class EndpointSecurity:
    """The files of TLS as PEM, and the token that every request has to bring; None where there is none.
    `client_ca` signs the certificates that clients have to show (mutual TLS)."""

    certificate: bytes | None = None
    key: bytes | None = None
    client_ca: bytes | None = None
    token: bytes | None = None
    context: ssl.SSLContext | None = None  # of the first three
    origins: frozenset[bytes] = frozenset()  # of web pages that may ask, as in "https://example.com"
    host: str = "localhost"  # that the server listens on

    def fault_of_page(self, headers: Mapping[bytes, bytes]) -> str:
        """Return why a request without a token may be that of anybody's web page, open in a browser here; "" if not.
        A page elsewhere has its own Origin. One whose name was bound to this address has its name as the Host. A form
        sends text/plain without asking first."""
        if self.token is not None or self.client_ca is not None:
            return ""
        host, content = headers.get(b"host", b""), headers.get(b"content-type", b"")
        return _fault_of_page(host, headers.get(b"origin"), content, self.host, self.origins)

    def allows(self, authorization: bytes) -> bool:
        """Whether the authorization field of a request (RFC 6750) holds the token."""
        if self.token is None:
            return True
        scheme, token = authorization[: len(_SCHEME)], authorization[len(_SCHEME) :]
        return scheme.lower() == _SCHEME.lower() and hmac.compare_digest(token.strip(), self.token)

    def credentials(self) -> Any:
        """Return the credentials of a gRPC server. Only with a certificate."""
        import grpc

        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)], self.client_ca, require_client_auth=self.client_ca is not None
        )


OPEN = EndpointSecurity()


@lru_cache(maxsize=256)  # a client sends the same fields again, and this takes longer than a small model
def _fault_of_page(host: bytes, origin: bytes | None, content: bytes, own: str, origins: frozenset[bytes]) -> str:
    """Return what `fault_of_page` does, by fields of a request and of the server."""
    name = re.sub(rb":\d*$", b"", host).strip(b"[]").lower()
    listed = (listed.partition(b"://")[2] for listed in origins)
    # By an address, as localhost, or as a listed origin does.
    is_own = _is_address(name) or name in (b"localhost", own.encode()) or host in listed
    if is_loopback(own) and host and not is_own:
        return f"the request is for the host {host.decode(errors='replace')}, which {_LISTS}"
    is_own_page = is_own and origin in (b"http://" + host, b"https://" + host)
    if not (origin is None or is_own_page or origin in origins):
        return f"the request is from a web page of {origin.decode(errors='replace')}, which {_LISTS}"
    if content.strip().lower().startswith(b"text/plain"):
        return "a body is JSON, and text/plain is refused without a token"
    return ""


def read_security(
    certificate: Path | None,
    key: Path | None,
    client_ca: Path | None,
    token: Path | None,
    *,
    origins: Sequence[str] = (),
) -> EndpointSecurity:
    """Read the files of a server's options. Raises BadRequest where one cannot be read or used, or is missing, or an
    origin is none."""
    if wrong := [origin for origin in origins if not _ORIGIN.fullmatch(origin)]:
        raise BadRequest(f"{wrong[0]} is no origin of web pages", fix="write it as in https://example.com:8080")
    pages = frozenset(origin.encode() for origin in origins)
    if (certificate is None) != (key is None):
        raise BadRequest("TLS needs a certificate and its key", fix="use --tls-cert FILE and --tls-key FILE")
    if client_ca is not None and certificate is None:
        raise BadRequest("certificates of clients need TLS", fix="use --tls-cert FILE and --tls-key FILE, too")
    secret = None if token is None else _read(token).strip()
    if secret is not None and (len(secret) < _LEAST_CHARACTERS or not _TOKEN.fullmatch(secret)):
        raise BadRequest(
            f"{token} holds no token of {_LEAST_CHARACTERS} or more letters, digits and -._~+/=",
            fix=f"make one: openssl rand -hex 32 > {token}",
        )
    if certificate is None or key is None:
        return EndpointSecurity(token=secret, origins=pages)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    contents = [None if path is None else _read(path) for path in (certificate, key, client_ca)]
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise BadRequest(
            f"the files of TLS cannot be used: {getattr(error, 'reason', None) or error}",
            fix="name a certificate and its key as PEM, the key without a password",
        ) from error
    return EndpointSecurity(contents[0], contents[1], contents[2], secret, context, pages)


def check_host(host: str, security: EndpointSecurity, *, insecure: bool) -> None:
    """Raises BadRequest where others than this machine could listen in, and nobody has said that they may."""
    if is_loopback(host) or host.startswith(UNIX) or security.context is not None or insecure:
        return
    raise BadRequest(
        f"{host} is open to other machines, and requests would be readable on the way",
        fix="use --tls-cert FILE and --tls-key FILE, or --insecure behind a proxy or in a container",
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@lru_cache
def _is_address(name: bytes) -> bool:
    try:
        ipaddress.ip_address(name.decode())
    except ValueError:
        return False
    return True


def _no_password() -> str:
    raise ValueError("the key needs a password")


def _read(path: Path) -> bytes:
    try:
        return read_plain(path)
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}", fix="check the path") from error
