"""Who may talk to a server, and whether others can read it: TLS, client certificates, a bearer token."""

from __future__ import annotations

import hmac
import ipaddress
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..models.errors import BadRequest
from ..models.foreign_files import read_plain

_LEAST_CHARACTERS = 16  # of a token: fewer can be guessed
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")  # b64token of RFC 6750
_SCHEME = b"Bearer "


@dataclass(frozen=True, slots=True)
class EndpointSecurity:
    """The files of TLS as PEM, and the token that every request has to bring; None where there is none.
    `client_ca` signs the certificates that clients have to show (mutual TLS)."""

    certificate: bytes | None = None
    key: bytes | None = None
    client_ca: bytes | None = None
    token: bytes | None = None
    context: ssl.SSLContext | None = None  # of the first three

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


def read_security(
    certificate: Path | None, key: Path | None, client_ca: Path | None, token: Path | None
) -> EndpointSecurity:
    """Read the files of a server's options. Raises BadRequest where one cannot be read or used, or is missing."""
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
        return EndpointSecurity(token=secret)
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
    return EndpointSecurity(contents[0], contents[1], contents[2], secret, context)


def check_host(host: str, security: EndpointSecurity, *, insecure: bool) -> None:
    """Raises BadRequest where others than this machine could listen in, and nobody has said that they may."""
    if is_loopback(host) or security.context is not None or insecure:
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


def _no_password() -> str:
    raise ValueError("the key needs a password")


def _read(path: Path) -> bytes:
    try:
        return read_plain(path)
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}", fix="check the path") from error
