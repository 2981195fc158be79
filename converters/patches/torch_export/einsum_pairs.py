"""Einsums of three tensors and more as einsums of two, one after another.

PyTorch chooses the order of the products by the sizes, and torch.export makes a constant of each size that is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def einsum(equation: object, *operands: Tensor | Sequence[Tensor]) -> Tensor | None:
    """Return the einsum; None for up to two tensors, and for unnamed axes (`...`), which PyTorch's own will do."""
    import torch

    first = operands[0]
    tensors: Sequence[Tensor] = first if len(operands) == 1 and isinstance(first, tuple | list) else operands  # type: ignore[assignment]  # a list, or tensors
    if not isinstance(equation, str) or "." in equation or len(tensors) <= _TWO:
        return None
    terms, output = _parsed(equation)
    labels, product = terms[0], tensors[0]
    for at, (term, tensor) in enumerate(zip(terms[1:], tensors[1:], strict=True), 2):
        later = set(output).union(*terms[at:])
        kept = "".join(label for label in dict.fromkeys(labels + term) if label in later)
        product = torch.einsum(f"{labels},{term}->{kept}", product, tensor)
        labels = kept
    return torch.einsum(f"{labels}->{output}", product)


_TWO = 2


def _parsed(equation: str) -> tuple[Sequence[str], str]:
    """Return the labels of each tensor, and of the output: by default those that occur once, sorted."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    single = (label for label in sorted(set(inputs) - {","}) if inputs.count(label) == 1)
    return inputs.split(","), output if arrow else "".join(single)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return nn.Bilinear's answer, which is such an einsum."""
    import torch

    product = (torch.einsum("...i,kij->...kj", input1, weight) * input2.unsqueeze(-2)).sum(-1)
    return product if bias is None else product + bias
