"""`nn.TransformerEncoder` and `nn.TransformerDecoder` captured as they answer.

In evaluation mode, without gradients, an encoder packs the rows of a batch and answers 0 where they are padded, if all
the padding of all rows lies behind them, and not else. torch.export and a trace record one of the two, for every mask.
And both ask whether a mask is causal, to be quicker, which torch.export takes for a way that depends on data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any


def make_capturable(model: Any) -> None:
    """From here on these layers of a model say by operators what PyTorch decides by the mask at hand."""
    _change(model, _captured())


@contextmanager
def as_made(model: Any) -> Iterator[None]:
    """While a model is compiled from its source: TorchScript keeps PyTorch's own way, and takes no class of ours."""
    _change(model, {ours: own for own, ours in _captured().items()})
    try:
        yield
    finally:
        make_capturable(model)


def _change(model: Any, kinds: Mapping[type, type]) -> None:
    for module in model.modules():
        if type(module) in kinds:
            module.__class__ = kinds[type(module)]


@cache
def _captured() -> Mapping[type, type]:
    """The classes to take, by PyTorch's own; made when torch is there, and once, so that they are known again."""
    from torch import nn

    class CapturedEncoder(nn.TransformerEncoder):
        def forward(
            self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
        ) -> Any:
            own, is_causal = super().forward, bool(is_causal)
            if not _packs(self) or src.dim() != 3 or mask is not None or src_key_padding_mask is None:
                return own(src, mask, src_key_padding_mask, is_causal)
            norm, self.norm = self.norm, None  # PyTorch takes it last, of the zeros too
            self.use_nested_tensor = False
            try:
                made = own(src, mask, src_key_padding_mask, is_causal)
            finally:
                self.norm, self.use_nested_tensor = norm, True
            made = made.masked_fill(_packed(src_key_padding_mask)[:, :, None], 0.0)
            return made if norm is None else norm(made)

    class CapturedDecoder(nn.TransformerDecoder):
        def forward(self, *args: Any, **more: Any) -> Any:
            if len(args) <= _BEFORE_CAUSAL:
                more["tgt_is_causal"] = bool(more.get("tgt_is_causal"))
            return super().forward(*args, **more)

    return {nn.TransformerEncoder: CapturedEncoder, nn.TransformerDecoder: CapturedDecoder}


_BEFORE_CAUSAL = 6  # arguments of a decoder that stand before `tgt_is_causal`


def _packs(encoder: Any) -> bool:
    """Whether it asks the mask, and then packs; one that was pickled long ago may not have the settings."""
    import torch

    asks = getattr(encoder, "use_nested_tensor", False) and getattr(encoder, "mask_check", True)
    return bool(asks and torch.backends.mha.get_fastpath_enabled())


def _packed(mask: Any) -> Any:
    """Where the answer is 0, (B, T), of a mask (B, T) of booleans or floats that hides where it is not 0."""
    import torch

    hidden = mask != 0
    seen = hidden.logical_not().sum(1, keepdim=True)
    is_behind = torch.arange(mask.shape[1], device=mask.device) >= seen
    return hidden & (hidden ^ is_behind).any().logical_not()
