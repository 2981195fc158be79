"""Open a payload in process: whatever is wrong with it becomes one sentence that names the file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from ...models.artifact import Artifact
from ...models.errors import BadRequest, OpenFailed, ToolMissing, TransloadError
from ..checked_session import first_words

_NO_KERNEL = re.compile(r"Could not find an implementation for (?P<operator>\w+)\(")


@contextmanager
def opening(runtime: str, path: Path) -> Iterator[None]:
    """Whatever a runtime raises over a payload becomes a BadRequest that names the file."""
    fix = "make the artifact again; what the runtime said in full is in the log"
    if not path.exists():
        raise BadRequest(f"{path} is not there", fix="make the artifact again")
    try:
        yield
    except TransloadError:
        raise
    except ImportError as error:
        raise ToolMissing(f"{runtime} cannot be loaded: {first_words(error)}", fix="transload doctor") from error
    except Exception as error:
        raise OpenFailed(f"{runtime} cannot open {path}: {_said(error)}", fix=fix, runtime=runtime) from error


def _said(error: Exception) -> str:
    """Return the runtime's message, with ONNX Runtime's own terms explained."""
    words = first_words(error)
    match = _NO_KERNEL.search(words)
    if match is None:
        return words
    return f"{words}: it has no {match['operator']} of that node's dtype, mostly float64; compute that in float32"


def check_names(artifact: Artifact, inputs: Collection[str], outputs: Collection[str]) -> None:
    """Hold the names in a payload against the record's.
    Raises BadRequest where the payload lacks one, or takes further inputs."""
    signature = artifact.signature
    for side, names, specs in (("inputs", inputs, signature.inputs), ("outputs", outputs, signature.outputs)):
        wanted = [spec.name for spec in specs]
        if not set(wanted) <= set(names) or (side == "inputs" and len(names) != len(wanted)):
            raise BadRequest(
                f"{artifact.path} has the {side} {', '.join(names)}, and its record names {', '.join(wanted)}",
                fix="make the artifact again: payload and record are not of one model",
            )
