"""Values of options that no machine takes are refused by name."""

from __future__ import annotations

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.options.option_words import parse_batches


@pytest.mark.parametrize("word", ["0", "-1", "1.5", "²", "9" * 5000])
def test_what_is_no_batch_size_is_refused(word: str) -> None:
    with pytest.raises(BadRequest, match=r"^'.{1,80}' is no batch size"):
        parse_batches([f"1,{word}"])


def test_sizes_are_taken_once_in_their_order() -> None:
    assert parse_batches(["8,1", "8"]) == (8, 1)
