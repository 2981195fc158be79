"""What the driver sends to a node, and what comes back. Plain records: they are pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ....models.errors import TransloadError
from ....models.store import Stored
from ...workers.cluster_records import DriverRun
from ...workers.engine import Action
from ...workers.isolation import Limits


@dataclass(frozen=True)
class StepOrder:
    """A step that a node is to do."""

    run: DriverRun
    action: Action
    key: str  # of the action, as the driver's libraries and code make it
    expected: Mapping[str, Limits] = field(default_factory=dict)  # frameworks to be kept loaded on the node


class Lack(StrEnum):
    """What a node lacks for a step; the value is the fix."""

    STORE = "name a folder that the nodes and this machine share, or a URL, with --store"
    INTERPRETER = "install that interpreter on the nodes, at the same path"
    FILE = "put it in a folder that the nodes share, at the same path"
    LIBRARY = "install on the nodes what the step needs"
    VERSION = "install on the nodes the versions of transload and of its libraries that this machine has"


@dataclass(frozen=True)
class Unfit:
    """The reason why a node cannot do a step that another one may be able to."""

    lack: Lack
    reason: str
    fix: str = ""  # of an error that the node met; empty: that of what it lacks


@dataclass(frozen=True)
class StepReply:
    """What a node says to an order: a result, an error, or the reason why it cannot do it."""

    node: str  # Ray's id of the node
    stored: Stored | None = None
    error: TransloadError | None = None
    log: bytes | None = None  # what the step printed
    unfit: Unfit | None = None
    is_new: bool = False  # the node has no node worker yet: the driver starts one


@dataclass(frozen=True)
class StepDemand:
    """What a step asks of a node. Ray finds one that has it free."""

    cores: int
    memory_bytes: int
    gpus: int = 0
    gpu_kind: str | None = None  # as Ray names it: "H100", "A100"


def text_for(error: TransloadError, there: Path, here: str) -> TransloadError:
    """Return an error of a node with the paths of the run's folder here in place of those there."""
    fields = {name: getattr(error, name).replace(str(there), here) for name in ("what", "fix")}
    error.what, error.fix = fields["what"], fields["fix"]
    error.args = (f"{error.what}\n  fix: {error.fix}",)
    return error
