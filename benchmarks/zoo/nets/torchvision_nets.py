"""torchvision's architectures: `at_64.resnet18` is resnet18 for pictures of 64 x 64, with 10 classes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from torch import Tensor, nn
from torchvision import models
from torchvision.models import segmentation
from zoo_weights import pictures, realistic

# Fewer layers or narrower ones where the family's smallest is still large; the parts are the same.
_SMALLER: dict[str, dict[str, Any]] = {
    "inception_v3": {"aux_logits": False, "init_weights": False},
    "googlenet": {"aux_logits": False, "init_weights": False},
    "fcn_resnet50": {"weights_backbone": None, "aux_loss": False},
    "deeplabv3_mobilenet_v3_large": {"weights_backbone": None, "aux_loss": False},
    "deeplabv3_resnet50": {"weights_backbone": None, "aux_loss": False},
    "lraspp_mobilenet_v3_large": {"weights_backbone": None},
}


class Segmented(nn.Module):
    """The one output that is served; torchvision gives it in a mapping."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, image: Tensor) -> Tensor:
        found: Tensor = self.inner(image)["out"]
        return found


def _vit(size: int) -> nn.Module:
    return models.VisionTransformer(
        image_size=size, patch_size=16, num_layers=6, num_heads=6, hidden_dim=192, mlp_dim=768, num_classes=10
    )


def _swin(size: int) -> nn.Module:  # noqa: ARG001  (the size is free)
    return models.SwinTransformer([4, 4], 48, [2, 2, 2], [3, 6, 12], [4, 4], num_classes=10)


def _swin_v2(size: int) -> nn.Module:  # noqa: ARG001
    from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformerBlockV2

    return models.SwinTransformer(
        [4, 4], 48, [2, 2, 2], [3, 6, 12], [4, 4],
        num_classes=10, block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2,
    )  # fmt: skip


def _maxvit(size: int) -> nn.Module:
    return models.MaxVit(
        input_size=(size, size), stem_channels=24, partition_size=4, block_channels=[24, 48],
        block_layers=[2, 2], head_dim=12, stochastic_depth_prob=0.1, num_classes=10,
    )  # fmt: skip


def _thin(name: str, width: int) -> Callable[[int], nn.Module]:
    """AlexNet and VGG with a narrower classifier: nine tenths of their weights are its first layer."""

    def make(size: int) -> nn.Module:  # noqa: ARG001
        model = getattr(models, name)(num_classes=10)
        old = [at for at, layer in enumerate(model.classifier) if isinstance(layer, nn.Linear)]
        sizes = [model.classifier[old[0]].in_features, width, width, 10]
        for at, (before, after) in zip(old, pairwise(sizes), strict=True):
            model.classifier[at] = nn.Linear(before, after)
        return model

    return make


_OWN: dict[str, Callable[[int], nn.Module]] = {
    "vit": _vit,
    "swin": _swin,
    "swin_v2": _swin_v2,
    "maxvit": _maxvit,
    "alexnet": _thin("alexnet", 256),
    "vgg11": _thin("vgg11", 128),
    "vgg11_bn": _thin("vgg11_bn", 128),
}


class _At:
    """The architectures by name, for pictures of one size."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __getattr__(self, name: str) -> Callable[[], nn.Module]:
        if not (name in _OWN or hasattr(models, name) or hasattr(segmentation, name)):
            raise AttributeError(name)
        return lambda: self._make(name)

    def _make(self, name: str) -> nn.Module:
        if name in _OWN:
            model = _OWN[name](self._size)
        elif hasattr(models, name):
            model = getattr(models, name)(weights=None, num_classes=10, **_SMALLER.get(name, {}))
        else:
            more = _SMALLER[name]
            model = Segmented(getattr(segmentation, name)(weights=None, num_classes=5, **more))
        return realistic(model, *pictures(self._size))


def __getattr__(name: str) -> _At:
    if name.startswith("at_") and name[3:].isdecimal():
        return _At(int(name[3:]))
    raise AttributeError(name)
