"""The zoo's models, as data: what makes each, what goes in, and at which sizes it is held against PyTorch.

The factories lie in nets/ and are read by workers only; a model that a package brings as ONNX is named by its file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

NETS = Path(__file__).resolve().parent / "nets"
sys.path.append(str(NETS))

from zoo_feeds import Draw, below, boxes, mask, normal, picture, unit, wave  # noqa: E402


@dataclass(frozen=True)
class Entry:
    """A model. `inputs` as `--input` takes them, each with what draws its values; `sizes`: of the dynamic axes beside
    the batch, one mapping for each time that it is checked."""

    name: str
    family: str
    ref: str  # "timm_nets.py:at_96.resnet10t" in nets/, or a .onnx file of a package
    inputs: Mapping[str, Draw]
    sizes: tuple[Mapping[str, int], ...] = ({},)


def _pictures(family: str, file: str, text: str) -> Iterator[Entry]:
    """Classifiers and the like that take one picture: lines of `name size`."""
    for line in text.split("\n"):
        for name, size in zip(*[iter(line.split())] * 2, strict=True):
            spec = f"image=float32[batch,3,{size},{size}]"
            yield Entry(f"{family}/{name}", family, f"{file}:at_{size}.{name}", {spec: picture})


_TORCHVISION = """
alexnet 128 vgg11 128 vgg11_bn 128 squeezenet1_1 96 densenet121 64 inception_v3 128 googlenet 96 resnet18 96
resnet50 96 resnext50_32x4d 64 wide_resnet50_2 64 shufflenet_v2_x0_5 96 mobilenet_v2 96 mobilenet_v3_small 96
mobilenet_v3_large 96 mnasnet0_5 96 efficientnet_b0 96 efficientnet_v2_s 96 convnext_tiny 64 regnet_y_400mf 96
regnet_x_400mf 96 vit 96 swin 96 swin_v2 96 maxvit 128
fcn_resnet50 64 deeplabv3_mobilenet_v3_large 96 lraspp_mobilenet_v3_large 96
""".strip()

_TIMM = """
resnet10t 96 resnetv2_18 96 seresnet18 96 skresnet18 96 resnest14d 96 ecaresnet26t 64 botnet26t_256 128
lambda_resnet26t 128 halonet26t 256 repvgg_a0 96 gernet_s 96 mobileone_s0 96 cspresnet50 64 darknet17 64
ese_vovnet19b_slim 64 dla46_c 96 dpn48b 64 densenetblur121d 64 efficientnet_lite0 96 mixnet_s 96 tf_efficientnetv2_b0 96
mobilenetv3_small_050 96 mobilenetv4_conv_small 96 mobilenetv4_hybrid_medium 96 ghostnet_050 96 hardcorenas_a 96
lcnet_050 96 tinynet_e 96 rexnet_100 96 regnety_002 96 nf_resnet26 64 hgnetv2_b0 96 hrnet_w18_small 96 selecsls42 96
xception41 96 inception_next_atto 96 convnext_atto 96 convnextv2_atto 96 convmixer_768_32 96 edgenext_xx_small 96
efficientformerv2_s0 96 efficientvit_b0 96 efficientvit_m0 96 fasternet_t0 96 fastvit_t8 96 mobilevit_xxs 96
mobilevitv2_050 96 repvit_m0_9 96 repghostnet_050 96 starnet_s1 96 shvit_s1 96 swiftformer_xs 96 levit_128s 96
pit_ti_224 96 pvt_v2_b0 96 poolformer_s12 64 caformer_s18 64 coatnet_nano_rw_224 96 maxvit_rmlp_pico_rw_256 128
coat_tiny 96 gcvit_xxtiny 128 davit_tiny 96 mvitv2_tiny 96 nest_tiny 96 twins_svt_small 96 crossvit_tiny_240 240
tiny_vit_5m_224 96 swinv2_cr_tiny_ns_224 56 visformer_tiny 96 xcit_nano_12_p16_224 96 cait_xxs24_224 96 convit_tiny 96
deit_tiny_distilled_patch16_224 96 beit_base_patch16_224 96 eva02_tiny_patch14_224 96 vit_tiny_patch16_224 96
vit_relpos_small_patch16_224 96 samvit_base_patch16_224 96 volo_d1_224 96 mixer_s32_224 96 gmlp_ti16_224 96
resmlp_12_224 96 tnt_s_legacy_patch16_224 96 sequencer2d_s 96 rdnet_tiny 64 mambaout_femto 64
""".strip()


def entries() -> tuple[Entry, ...]:
    """Every model of the zoo, by family."""
    return (
        *_pictures("torchvision", "torchvision_nets.py", _TORCHVISION),
        *_pictures("timm", "timm_nets.py", _TIMM),
    )
