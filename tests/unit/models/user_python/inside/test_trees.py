"""Arguments and results as JSON with tensors by number."""

from __future__ import annotations

import json
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from transload.models.user_python.inside.trees import decode_tree, encode_tree

Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Answer:
    logits: torch.Tensor
    note: str


def test_a_value_comes_back_with_records_as_dicts() -> None:
    first, second = torch.ones(2), torch.zeros(3)
    value = (first, [1, None, "text", {"key": Pair(second, 2.5)}], Answer(first, "x"), np.float32(0.5), np.ones(2))
    tensors: list[torch.Tensor] = []
    document = json.loads(json.dumps(encode_tree(value, tensors)))
    result = decode_tree(document, tensors)
    assert torch.equal(result[0], first)
    assert result[1][:3] == [1, None, "text"]
    assert torch.equal(result[1][3]["key"]["left"], second)
    assert result[1][3]["key"]["right"] == 2.5
    assert result[2]["note"] == "x"
    assert float(result[3]) == 0.5
    assert torch.equal(result[4], torch.ones(2, dtype=torch.float64))


def test_an_object_without_tensors_keeps_the_name_of_its_class() -> None:
    result = decode_tree(encode_tree({"cache": object()}, []), [])
    assert type(result["cache"]).__qualname__ == "object"
    assert type(result["cache"]).__module__ == "builtins"


def test_what_is_no_tree_is_refused() -> None:
    with pytest.raises(ValueError, match="no value"):
        decode_tree({"code": "x"}, [])
