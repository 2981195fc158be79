"""A step that does nothing."""

from __future__ import annotations

from collections.abc import Mapping


def no_op(job: object) -> Mapping[str, object]:  # noqa: ARG001  (every step has its job)
    """Return no facts."""
    return {}
