"""Where the listeners of a server are: a host and a port of each, or a folder of UNIX sockets."""

from __future__ import annotations

import socket
import stat
from contextlib import suppress
from pathlib import Path

from ...models.errors import BadRequest
from ..endpoint_security import UNIX


def address_of(host: str, port: int, protocol: str) -> str:
    """Return `host:port`, an address of IPv6 in brackets; or `unix:PATH` of the protocol's socket."""
    if host.startswith(UNIX):
        return f"{UNIX}{_socket_path(host, protocol)}"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen_on(host: str, port: int, protocol: str) -> socket.socket:
    """Return a socket that is bound. Raises BadRequest where nothing can listen there."""
    prepare_socket(host, protocol)
    listener = socket.socket(socket.AF_UNIX) if host.startswith(UNIX) else None
    try:
        if listener is None:
            return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        listener.bind(str(_socket_path(host, protocol)))
    except OSError as error:
        if listener is not None:
            listener.close()
        raise cannot_listen(host, port) from error
    return listener


def prepare_socket(host: str, protocol: str) -> None:
    """Remove the socket that a server which was killed has left. Raises BadRequest where one answers there."""
    if not host.startswith(UNIX):
        return
    path = _socket_path(host, protocol)
    with suppress(FileNotFoundError), socket.socket(socket.AF_UNIX) as probe:
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise BadRequest(f"{path} is no socket", fix="name another folder")
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        else:
            raise cannot_listen(host, 0)


def remove_socket(host: str, protocol: str) -> None:
    """Remove the socket file that a server listened on, where it listened in a folder, when it ends."""
    if host.startswith(UNIX):
        _socket_path(host, protocol).unlink(missing_ok=True)


def cannot_listen(host: str, port: int) -> BadRequest:
    """Return the error of an address that is taken, or cannot be had."""
    if host.startswith(UNIX):
        return BadRequest(
            f"nothing can listen in {host}", fix="name a folder that is there, of a short path, of your own"
        )
    return BadRequest(f"nothing can listen on {host}:{port}", fix="name another port, or 0")


def _socket_path(host: str, protocol: str) -> Path:
    return Path(host.removeprefix(UNIX), f"{protocol}.sock").absolute()
