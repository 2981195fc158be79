"""The record of one change to a third party's behaviour. The ledger of all of them: converters/patches/ledger.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

# The versions whose canaries were last seen to fail (`make canaries`).
TORCH, TRANSFORMERS, TORCHVISION = "torch 2.13.0", "transformers 5.23.0", "torchvision 0.28.0"
ONNXSCRIPT, TF2ONNX, ONNX_RUNTIME = "onnxscript 0.7.2", "tf2onnx 1.17.0", "onnxruntime 1.31.1"


class Kind(StrEnum):
    """How a patch takes effect. A swap's `replacement` maps the library's value to ours; any other's is ours itself."""

    SWAP = "Names swapped for a while"  # of a capture or an export
    TRACE = "Names swapped while a model is traced for torch's TorchScript exporter"
    PERMANENT = "Names swapped for good"  # for the rest of a worker process
    TRANSLATION = "Translations of torch's dynamo exporter"
    SYMBOLIC = "Symbolics of torch's TorchScript exporter"
    HANDLER = "Handlers of tf2onnx"
    REWRITE = "Rewrites of the model or the captured program"


@dataclass(frozen=True, slots=True)
class Patch:
    """One change to a third party's behaviour: `owner`.`name` does something else while the patch is applied."""

    kind: Kind
    owner: str  # the module, or a class in it, by its full name; or the table that the name is registered in
    name: str
    replacement: Callable[..., object]
    why: str  # what the unpatched library does
    upstream: str  # the issue, or the source line that is to blame
    until: str  # what would make the patch unnecessary
    seen: str  # library and version

    def __post_init__(self) -> None:
        missing = [field for field in ("owner", "name", "why", "upstream", "until", "seen") if not getattr(self, field)]
        if missing:
            raise ValueError(f"a patch must say its {', '.join(missing)}: {self.id}")

    @property
    def id(self) -> str:
        """What names the patch in docs/patches.md, and its canary in tests/canaries."""
        return f"{self.kind.name.lower()}:{self.owner}.{self.name}"


def patches(
    kind: Kind,
    owner: str,
    replacements: Mapping[str, Callable[..., object]],
    *,
    why: str,
    upstream: str,
    until: str,
    seen: str = TORCH,
) -> tuple[Patch, ...]:
    """Return one record for each name, with what they have in common."""
    return tuple(
        Patch(kind, owner, name, replacement, why, upstream, until, seen) for name, replacement in replacements.items()
    )
