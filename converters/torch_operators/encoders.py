"""`nn.TransformerEncoder` with a padding mask, captured as it answers.

In evaluation mode, without gradients, PyTorch packs the rows of a batch and answers 0 where they are padded, if all the
padding of all rows lies behind them, and not else. torch.export and a trace record one of the two, for every mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


def answer_as_packed(model: Any) -> None:
    """From here on the encoders in a model say by operators what PyTorch decides by the mask at hand."""
    from torch import nn

    for module in model.modules():
        if type(module) is nn.TransformerEncoder and module.use_nested_tensor and getattr(module, "mask_check", True):
            module.__class__ = _packed_encoder()


@contextmanager
def as_made(model: Any) -> Iterator[None]:
    """While a model is compiled from its source: TorchScript keeps PyTorch's own way, and takes no class of ours."""
    from torch import nn

    ours = [each for each in model.modules() if type(each) is _packed_encoder()]
    for module in ours:
        module.__class__ = nn.TransformerEncoder
    try:
        yield
    finally:
        for module in ours:
            module.__class__ = _packed_encoder()


@cache
def _packed_encoder() -> Any:
    """A class for them, made when torch is there; one for all, so that it is known again."""
    from torch import nn

    class PackedEncoder(nn.TransformerEncoder):
        def forward(
            self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
        ) -> Any:
            own = super().forward
            if src.dim() != 3 or mask is not None or src_key_padding_mask is None:
                return own(src, mask, src_key_padding_mask, is_causal)
            norm, self.norm = self.norm, None  # PyTorch takes it last, of the zeros too
            self.use_nested_tensor = False
            try:
                made = own(src, mask, src_key_padding_mask, is_causal)
            finally:
                self.norm, self.use_nested_tensor = norm, True
            made = made.masked_fill(_packed(src_key_padding_mask)[:, :, None], 0.0)
            return made if norm is None else norm(made)

    return PackedEncoder


def _packed(mask: Any) -> Any:
    """Where the answer is 0, (B, T), of a mask (B, T) of booleans or floats that hides where it is not 0."""
    import torch

    hidden = mask != 0
    seen = hidden.logical_not().sum(1, keepdim=True)
    is_behind = torch.arange(mask.shape[1], device=mask.device) >= seen
    return hidden & (hidden ^ is_behind).any().logical_not()
