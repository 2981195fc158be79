"""Capture `nn.TransformerEncoder` and `nn.TransformerDecoder` as they answer in evaluation mode.

Without gradients an encoder packs the rows of a batch, and answers 0 at padding, if the padding of every row comes
last; else it does neither. torch.export and a trace record one of the two for every mask. Both layers also ask whether
a mask is causal, to be quicker, which torch.export takes for a branch on data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from ..ledger import rewrites

if TYPE_CHECKING:
    from torch import Tensor, nn


def make_capturable(model: nn.Module) -> None:
    """Let these layers of a model compute by operators what PyTorch decides by the mask at hand; in place."""
    _change_classes(model, _capturable_classes())


@contextmanager
def keep_own_classes(model: nn.Module) -> Iterator[None]:
    """Give the layers their own classes back while a model is compiled: TorchScript keeps PyTorch's own branches."""
    _change_classes(model, {ours: own for own, ours in _capturable_classes().items()})
    try:
        yield
    finally:
        make_capturable(model)


def _change_classes(model: nn.Module, classes: Mapping[type, type]) -> None:
    for module in model.modules():
        if type(module) in classes:
            module.__class__ = classes[type(module)]


@cache
def _capturable_classes() -> Mapping[type, type]:
    """Return our classes by PyTorch's own: made once, so that they are recognised later, and after torch is there."""
    from torch import nn

    class CapturedEncoder(nn.TransformerEncoder):
        def forward(
            self,
            src: Tensor,
            mask: Tensor | None = None,
            src_key_padding_mask: Tensor | None = None,
            is_causal: bool | None = None,
        ) -> Tensor:
            own, is_causal = super().forward, bool(is_causal)
            if not _packs(self) or src.dim() != 3 or mask is not None or src_key_padding_mask is None:
                return own(src, mask, src_key_padding_mask, is_causal)
            norm, self.norm = self.norm, None  # PyTorch takes it last, of the zeros too
            self.use_nested_tensor = False
            try:
                encoded: Tensor = own(src, mask, src_key_padding_mask, is_causal)
            finally:
                self.norm, self.use_nested_tensor = norm, True
            encoded = encoded.masked_fill(_packed_places(src_key_padding_mask)[:, :, None], 0.0)
            return encoded if norm is None else norm(encoded)

    class CapturedDecoder(nn.TransformerDecoder):
        def forward(self, *args: Any, **keywords: Any) -> Tensor:
            if len(args) <= _BEFORE_CAUSAL:
                keywords["tgt_is_causal"] = bool(keywords.get("tgt_is_causal"))
            return super().forward(*args, **keywords)

    return {nn.TransformerEncoder: CapturedEncoder, nn.TransformerDecoder: CapturedDecoder}


_BEFORE_CAUSAL = 6  # arguments of a decoder that stand before `tgt_is_causal`


def _packs(encoder: nn.TransformerEncoder) -> bool:
    """Return whether an encoder may pack by its mask; one that was pickled long ago may lack the settings."""
    import torch

    asks = getattr(encoder, "use_nested_tensor", False) and getattr(encoder, "mask_check", True)
    return bool(asks and torch.backends.mha.get_fastpath_enabled())


def _packed_places(mask: Tensor) -> Tensor:
    """Return where the answer is 0, (B, T), for a mask (B, T) that hides a place where it is not 0."""
    import torch

    hidden = mask != 0
    seen = hidden.logical_not().sum(1, keepdim=True)
    is_behind = torch.arange(mask.shape[1], device=mask.device) >= seen
    return hidden & (hidden ^ is_behind).any().logical_not()


PATCHES = (
    *rewrites(
        "torch.nn.TransformerEncoder",
        {"forward": make_capturable},
        why="Packs the rows by a mask at hand, or not: a capture records one of the two for every mask.",
        upstream="torch/nn/modules/transformer.py (TransformerEncoder.forward)",
        until="the encoder no longer packs where a model is captured",
    ),
    *rewrites(
        "torch.nn.TransformerDecoder",
        {"forward": make_capturable},
        why="Asks a mask whether it is causal, which torch.export takes for a branch on data.",
        upstream="torch/nn/modules/transformer.py (_detect_is_causal_mask)",
        until="the decoder does not ask where a model is captured",
    ),
)
