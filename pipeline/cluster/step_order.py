"""What the driver sends to a node, and what comes back. Plain records: they are pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...models.errors import TransloadError
from ...models.store import Stored
from ..workers.engine import Action
from ..workers.isolation import Limits


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
class StepOrder:
    """A step that a node is to do."""

    run: DriverRun
    action: Action
    key: str  # of the action, as the driver's libraries and code make it
    expected: Mapping[str, Limits] = field(default_factory=dict)  # frameworks to be kept loaded on the node


@dataclass(frozen=True)
class StepReply:
    """What a node says to an order: a result, an error, or the reason why it cannot do it."""

    node: str  # Ray's id of the node
    stored: Stored | None = None
    error: TransloadError | None = None
    log: bytes | None = None  # what the step printed
    unfit: str | None = None  # why this node cannot do the step, and another one may
    is_new: bool = False  # the node has no node worker yet: the driver starts one


@dataclass(frozen=True)
class StepDemand:
    """What a step asks of a node. Ray finds one that has it free."""

    cores: int
    memory_bytes: int
    gpus: int = 0
    gpu_kind: str | None = None  # as Ray names it: "H100", "A100"


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


def text_for(error: TransloadError, there: Path, here: str) -> TransloadError:
    """Return an error of a node with the paths of the run's folder here in place of those there."""
    fields = {name: getattr(error, name).replace(str(there), here) for name in ("what", "fix")}
    error.what, error.fix = fields["what"], fields["fix"]
    error.args = (f"{error.what}\n  fix: {error.fix}",)
    return error
