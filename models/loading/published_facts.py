"""What torchvision and timm say of a model's published weights: names of classes, and how an image is prepared.

Both ship with the library: nothing is downloaded. They hold for weights that a user names; random ones mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..sources import CodeRef
from .torchvision_ops import register_torchvision_stubs

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class PublishedFacts:
    """What a library says of weights that it publishes for a model. `source`: whose weights those are."""

    labels: tuple[str, ...] = ()
    preprocessing: str = ""
    source: str = ""


def published_facts(ref: CodeRef, model: torch.nn.Module, classes: int) -> PublishedFacts:
    """Return what the library of a model says of its published weights, where they have so many classes.
    Empty for any other model, and for one with another number of classes: that was trained on something else."""
    if ref.library == "torchvision":
        facts = _torchvision_facts(ref.name)
    elif ref.library == "timm":
        facts = _timm_facts(getattr(model, "pretrained_cfg", None) or {})
    else:
        return PublishedFacts()
    return facts if not facts.labels or len(facts.labels) == classes else PublishedFacts()


def _torchvision_facts(name: str) -> PublishedFacts:
    register_torchvision_stubs()
    from torchvision.models import get_model_weights

    weights = next(iter(get_model_weights(name)), None)
    if weights is None:
        return PublishedFacts()
    transforms = weights.transforms()
    sentence = transforms.describe().replace("``", "") if hasattr(transforms, "describe") else ""
    labels = tuple(map(str, weights.meta.get("categories") or ()))
    return PublishedFacts(labels, " ".join(sentence.split()), f"torchvision's {weights}")


def _timm_facts(known: Mapping[str, Any]) -> PublishedFacts:
    from timm.data import ImageNetInfo, infer_imagenet_subset, resolve_data_config

    prepared = resolve_data_config(pretrained_cfg=dict(known))
    (height, width), share = prepared["input_size"][1:], prepared["crop_pct"]
    mean, std = (", ".join(f"{number:g}" for number in prepared[name]) for name in ("mean", "std"))
    resized = f"resized ({prepared['interpolation']}) so that a {prepared['crop_mode']} crop is {share:g} of it"
    sentence = f"an image in 0..1 is {resized}, cropped to {height} x {width}, minus mean {mean}, divided by std {std}"
    subset = infer_imagenet_subset(dict(known))
    info = ImageNetInfo(subset) if subset else None
    labels = tuple(info.index_to_description(at) for at in range(info.num_classes())) if info else ()
    tag = f".{known['tag']}" if known.get("tag") else ""
    return PublishedFacts(labels, sentence, f"timm's {known.get('architecture', 'weights')}{tag}")
