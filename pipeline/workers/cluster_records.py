"""The command and the nodes of a cluster, as each sees the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class DriverRun:
    """The command that steps are done for, as its nodes see it."""

    driver: str  # one process that gives orders; names its actors on the nodes
    number: str  # of a run of that process: a command over several models has several
    store: str  # the folder of the store, or its URL
    identity: str  # of that store: a node that reads another one there, or none, does not share it
    folder: str  # where the driver leaves the run; it need not be there on a node
    model: str


@dataclass(frozen=True)
class NodeFacts:
    """A node of the cluster that is alive."""

    node: str  # Ray's id
    host: str
    resources: Mapping[str, float]

    @property
    def label(self) -> str:
        """The name for people: the host, and the first digits of the id, as one host may have several nodes."""
        return f"{self.host} ({self.node[:8]})"
