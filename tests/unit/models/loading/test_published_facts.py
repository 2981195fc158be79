"""Labels and preprocessing that torchvision and timm publish."""

from __future__ import annotations

import pytest
import torch

from transload.models.loading.published_facts import PublishedFacts, published_facts
from transload.models.sources import CodeRef


class Configured(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        names = {"architecture": "resnet10t", "tag": "c3_in1k", "interpolation": "bicubic", "crop_mode": "center"}
        numbers = {"input_size": (3, 176, 176), "crop_pct": 0.875, "mean": (0.5, 0.25, 0.5), "std": (0.2, 0.2, 0.2)}
        self.pretrained_cfg = {**names, **numbers, "num_classes": 1000}


def test_torchvision_says_labels_and_transforms() -> None:
    facts = published_facts(CodeRef("torchvision:resnet18"), torch.nn.Identity(), 1000)
    assert facts.labels[:2] == ("tench", "goldfish")
    assert "resize_size=[256]" in facts.preprocessing
    assert "`" not in facts.preprocessing
    assert facts.source == "torchvision's ResNet18_Weights.IMAGENET1K_V1"


def test_timm_says_labels_and_configuration() -> None:
    facts = published_facts(CodeRef("timm:resnet10t"), Configured(), 1000)
    assert len(facts.labels) == 1000
    assert facts.labels[0] == "tench, Tinca tinca"
    assert facts.preprocessing == (
        "an image in 0..1 is resized (bicubic) so that a center crop is 0.875 of it, cropped to 176 x 176, "
        "minus mean 0.5, 0.25, 0.5, divided by std 0.2, 0.2, 0.2"
    )
    assert facts.source == "timm's resnet10t.c3_in1k"


@pytest.mark.parametrize("name", ["torchvision:resnet18", "timm:resnet10t", "net.py:Net"])
def test_a_model_of_other_classes_has_none(name: str) -> None:
    assert published_facts(CodeRef(name), Configured(), 5) == PublishedFacts()
