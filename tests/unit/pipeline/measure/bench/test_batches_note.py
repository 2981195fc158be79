"""Which batch sizes are measured where a model does not take those that were asked for."""

from __future__ import annotations

import pytest

from transload.models.probes.sizes import batches_within
from transload.models.signature import parse_input
from transload.pipeline.measure.bench_stage import batches_note


@pytest.mark.parametrize(
    ("spec", "asked", "said"),
    [
        ("x=float32[batch,3]", (1, 8), None),
        ("x=float32[batch=1..8,3]", (8, 1), None),
        (
            "x=float32[batch=1..4,3]",
            (1, 8),
            "measured at batch 1, 4 in place of 1, 8: the model takes batch=1..4",
        ),
        ("x=float32[n=4..,3]", (1, 8), "measured at batch 4, 8 in place of 1, 8: the model takes n=4.."),
        (
            "x=float32[8,3]",
            (1, 8),
            "measured at batch 1 in place of 1, 8: the model has no batch, a call is one sample",
        ),
        ("x=float32[8,3]", (1,), None),
    ],
)
def test_a_batch_that_the_model_does_not_take_is_replaced_with_a_sentence(
    spec: str, asked: tuple[int, ...], said: str | None
) -> None:
    specs = (parse_input(spec),)
    assert batches_note(asked, batches_within(specs, asked), specs) == said
