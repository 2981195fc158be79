"""Sums of products of three tensors and more, as products of two after one another: of a path through all of them
PyTorch makes by sizes, and torch.export a constant of each size that was asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def einsum(equation: Any, *operands: Any) -> Any:
    """None where there are two, or axes without a name (`...`)."""
    import torch

    given = operands[0] if len(operands) == 1 and isinstance(operands[0], tuple | list) else operands
    if not isinstance(equation, str) or "." in equation or len(given) <= _TWO:
        return None
    terms, outcome = _parsed(equation)
    labels, made = terms[0], given[0]
    for at, (term, operand) in enumerate(zip(terms[1:], given[1:], strict=True), 2):
        later = set(outcome).union(*terms[at:])
        kept = "".join(label for label in dict.fromkeys(labels + term) if label in later)
        labels, made = kept, torch.einsum(f"{labels},{term}->{kept}", made, operand)
    return torch.einsum(f"{labels}->{outcome}", made)


_TWO = 2


def _parsed(equation: str) -> tuple[Sequence[str], str]:
    """The axes of each tensor, and those of what is made: where it is not said, those that come once, in the order of
    the alphabet."""
    given, arrow, outcome = equation.replace(" ", "").partition("->")
    once = (label for label in sorted(set(given) - {","}) if given.count(label) == 1)
    return given.split(","), outcome if arrow else "".join(once)


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """nn.Bilinear, which is such a sum."""
    import torch

    made = (torch.einsum("...i,kij->...kj", input1, weight) * input2.unsqueeze(-2)).sum(-1)
    return made if bias is None else made + bias
