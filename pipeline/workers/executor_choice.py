"""Where the steps of a command are done, by its own name: this machine, or a Ray cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...models.errors import BadRequest

LOCAL, RAY = "local", "ray"
ADDRESS_VARIABLE = "RAY_ADDRESS"  # Ray's own, of the cluster that is meant where none is named
CLIENT_SCHEME = "ray://"  # of an address of Ray's client server
_FIX = "use local, ray (the cluster of RAY_ADDRESS or of this machine) or ray://HOST:PORT"
_ADDRESS = re.compile(r"ray://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")


@dataclass(frozen=True)
class ExecutorChoice:
    """An executor by its name, and the cluster's address where it has one."""

    name: str = LOCAL
    address: str | None = None  # "ray://HOST:PORT", a Ray client server

    @property
    def is_ray(self) -> bool:
        """Whether the steps go to a Ray cluster."""
        return self.name == RAY


def parse_executor(text: str) -> ExecutorChoice:
    """Parse `local`, `ray` or `ray://HOST:PORT`. Raises BadRequest."""
    if text in (LOCAL, RAY):
        return ExecutorChoice(text)
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 1 << 16:
        raise BadRequest(f"unknown executor {text[:80]!r}", fix=_FIX)
    return ExecutorChoice(RAY, text)
