"""A step that does nothing, and one that leaves a file."""

from __future__ import annotations

import os
from collections.abc import Mapping

from transload.models.job import Job


def no_op(job: object) -> Mapping[str, object]:  # noqa: ARG001  (every step has its job)
    """Return no facts."""
    return {}


def write(job: Job) -> Mapping[str, object]:
    """Leave a file of so many bytes."""
    size = int(job.options["bytes"])
    if size:
        (job.out / "file").write_bytes(os.urandom(size))
    return {}
