"""The zoo's models, as data: what makes each, what goes in, and at which sizes it is held against PyTorch.

The factories lie in nets/ and are read by workers only; a model that a package brings as ONNX is named by its file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

NETS = Path(__file__).resolve().parent / "nets"
sys.path.append(str(NETS))

from zoo_feeds import Draw, below, mask, normal, picture, unit, wave  # noqa: E402


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
mobilenet_v3_large 96 mnasnet0_5 96 efficientnet_b0 96 efficientnet_v2_s 128 convnext_tiny 64 regnet_y_400mf 96
regnet_x_400mf 96 vit 96 swin 96 swin_v2 96 maxvit 128
fcn_resnet50 64 deeplabv3_mobilenet_v3_large 96 lraspp_mobilenet_v3_large 96
""".strip()

_TIMM = """
resnet10t 96 resnetv2_18 96 skresnet18 96 resnest14d 96 botnet26t_256 128 lambda_resnet26t 128 halonet26t 256
repvgg_a0 96 gernet_s 96 mobileone_s0 96 darknet17 64 ese_vovnet19b_slim 64 dla46_c 96 dpn48b 64 efficientnet_lite0 96
mixnet_s 96 tf_efficientnetv2_b0 96 mobilenetv3_small_050 96 mobilenetv4_conv_small 96 ghostnet_050 96 hardcorenas_a 96
lcnet_050 96 rexnet_100 96 regnety_002 96 nf_resnet26 64 hgnetv2_b0 96 inception_next_atto 96 convnext_atto 96
convnextv2_atto 96 edgenext_xx_small 96 efficientformerv2_s0 96 efficientvit_b0 96 efficientvit_m0 96 fasternet_t0 96
fastvit_t8 96 mobilevit_xxs 96 mobilevitv2_050 96 repvit_m0_9 96 starnet_s1 96 shvit_s1 96 swiftformer_xs 96
levit_128s 96 pit_ti_224 96 pvt_v2_b0 96 poolformer_s12 64 coatnet_nano_rw_224 96 coat_tiny 96 gcvit_xxtiny 128
mvitv2_tiny 96 nest_tiny 96 crossvit_tiny_240 240 tiny_vit_5m_224 96 xcit_nano_12_p16_224 96 cait_xxs24_224 96
convit_tiny 96 deit_tiny_distilled_patch16_224 96 beit_base_patch16_224 96 eva02_tiny_patch14_224 96
vit_tiny_patch16_224 96 vit_relpos_small_patch16_224 96 samvit_base_patch16_224 96 mixer_s32_224 96 gmlp_ti16_224 96
tnt_s_legacy_patch16_224 96 sequencer2d_s 96 mambaout_femto 64
""".strip()


_LENGTHS: tuple[Mapping[str, int], ...] = ({"length": 9}, {"length": 16}, {"length": 5})


def _one(family: str, file: str, name: str, *sizes: Mapping[str, int], **inputs: tuple[str, Draw]) -> Entry:
    """A model whose factory is called as it is; inputs as `name=(shape, draw)`, floats but where the draw is whole."""
    specs = {f"{key}={shape}": draw for key, (shape, draw) in inputs.items()}
    return Entry(f"{family}/{name}", family, f"{file}:{name}", specs, sizes or ({},))


def _image_kinds() -> Iterator[Entry]:
    def kind(file: str) -> Callable[..., Entry]:
        return partial(_one, "pictures", f"{file}_kinds.py")

    def image(size: int, channels: int = 3) -> tuple[str, Draw]:
        return f"float32[batch,{channels},{size},{size}]", picture

    for file, name, size in (
        ("image", "unet", 48), ("image", "norms", 24), ("image", "dynamic_convolution", 16), ("image", "blocks", 24),
        ("place", "detector", 64), ("place", "detector_topk", 64), ("place", "detector_nms", 64),
        ("place", "detector_peaks", 64), ("place", "anchors", 48), ("place", "keypoints", 48), ("place", "pyramid", 64),
        ("generator", "vector_quantised", 32), ("generator", "translation", 32),
    ):  # fmt: skip
        yield kind(file)(name, image=image(size))
    plain, place, maker = kind("image"), kind("place"), kind("generator")
    yield plain("volume", volume=("float32[batch,1,8,16,16]", normal))
    yield plain("film", frames=("float32[batch,3,6,24,24]", normal))
    yield plain("film_memory", frames=("float32[batch,4,3,16,16]", normal))
    yield plain("twins", left=image(40), right=image(40))
    yield plain("capsules", image=image(28, 1))
    yield place("spatial_transformer", image=image(28, 1))
    yield place("flow", first=image(48), second=image(48))
    yield maker("generator", seed=("float32[batch,32]", normal))
    yield maker("styled", style=("float32[batch,12]", normal))
    free = ("float32[batch,3,height,width]", picture)
    yield maker("super_resolution", {"height": 24, "width": 24}, {"height": 17, "width": 30}, image=free)
    text = ("float32[batch,words,24]", normal)
    step = ("int64[batch]", below(1000))
    latent = ("float32[batch,4,16,16]", normal)
    yield maker("diffusion", {"words": 7}, {"words": 12}, latent=latent, step=step, text=text)


def _sequence_kinds() -> Iterator[Entry]:
    along = partial(_one, "sequences", "sequence_kinds.py")
    whole = partial(_one, "sequences", "attention_kinds.py")

    def tokens(limit: int) -> tuple[str, Draw]:
        return "int64[batch,length]", below(limit, 1)

    def series(shape: str) -> tuple[str, Draw]:
        return f"float32[{shape}]", normal

    for name, limit in (("lstm", 200), ("gru", 200), ("rnn", 200), ("translator", 120), ("text_convolution", 500)):
        yield along(name, *_LENGTHS, tokens=tokens(limit))
    for name, width in (("projected", 6), ("linear_state_space", 12), ("scan", 6), ("temporal", 4)):
        yield along(name, *_LENGTHS, series=series(f"batch,length,{width}"))
    state = series("batch,1,16")
    yield along("streaming", *_LENGTHS, chunk=series("batch,length,10"), hidden=state, cell=state)
    for name, shape in (
        ("cells", "batch,5,6"), ("state_space", "batch,12,16"), ("forecast", "batch,24"), ("viterbi", "batch,10,6"),
    ):  # fmt: skip
        yield along(name, series=series(shape))
    yield along("conditional", features=series("batch,8"))
    masked = {"input_ids": tokens(300), "attention_mask": ("int64[batch,length]", mask)}
    yield whole("encoder", *_LENGTHS, **masked)
    yield whole("torch_encoder", *_LENGTHS, **masked)
    yield whole("decoder", *_LENGTHS, tokens=tokens(250))
    two = {"source": ("int64[batch,heard]", below(100)), "target": ("int64[batch,said]", below(100))}
    yield whole("torch_transformer", {"heard": 8, "said": 6}, {"heard": 5, "said": 9}, **two)
    past = series("batch,4,past,8")
    yield whole("cached", {"past": 6}, {"past": 11}, state=series("batch,32"), keys=past, values=past)
    yield whole("experts", *_LENGTHS, states=series("batch,length,24"))
    yield whole("patch_series", series=series("batch,40,5"))


def _sound_kinds() -> Iterator[Entry]:
    def kind(name: str, *sizes: Mapping[str, int], **inputs: tuple[str, Draw]) -> Entry:
        return _one("sound", "sound_kinds.py", name, *sizes, **inputs)

    yield kind("sound", wave=("float32[batch,1,2000]", wave))
    yield kind("wavenet", {"time": 64}, {"time": 101}, wave=("float32[batch,1,time]", wave))
    yield kind("separator", wave=("float32[batch,1,400]", wave))
    yield kind("spectrogram", wave=("float32[batch,2000]", wave))
    yield kind("vocoder", {"frames": 12}, {"frames": 25}, mel=("float32[batch,20,frames]", normal))
    yield kind("conformer", {"frames": 48}, {"frames": 61}, mel=("float32[batch,frames,40]", normal))


def _table_kinds() -> Iterator[Entry]:
    def kind(name: str, *sizes: Mapping[str, int], **inputs: tuple[str, Draw]) -> Entry:
        return _one("tables and graphs", "table_kinds.py", name, *sizes, **inputs)

    def whole(shape: str, limit: int) -> tuple[str, Draw]:
        return f"int64[{shape}]", below(limit)

    def numbers(shape: str) -> tuple[str, Draw]:
        return f"float32[{shape}]", normal

    image = ("float32[batch,3,32,32]", picture)
    yield kind("perceptron", features=numbers("batch,20"))
    yield kind("mixed", image=image, numbers=numbers("batch,7"), kinds=whole("batch,3", 50))
    yield kind("algebra", x=numbers("batch,6,8"))
    yield kind("recommender", numbers=numbers("batch,5"), kinds=whole("batch,3,4", 100))
    yield kind("factorised", kinds=whole("batch,4", 100))
    yield kind("two_towers", user=whole("batch", 80))
    yield kind("tab_transformer", kinds=whole("batch,6", 90), numbers=numbers("batch,4"))
    yield kind("soft_tree", features=numbers("batch,9"))
    yield kind("autoencoder", features=numbers("batch,16"))
    yield kind("radiance", points=numbers("batch,8,3"))
    graph = ({"nodes": 7, "edges": 20}, {"nodes": 10, "edges": 9})
    both = {"nodes": numbers("batch,nodes,6"), "edges": whole("batch,edges,2", 7)}
    yield kind("graph_convolution", *graph, **both)
    adjacency = ("float32[batch,nodes,nodes]", unit)
    yield kind("graph_attention", {"nodes": 7}, {"nodes": 11}, nodes=numbers("batch,nodes,6"), adjacency=adjacency)
    yield kind("graph_mean", *graph, nodes=numbers("batch,nodes,5"), edges=whole("batch,edges,2", 7))
    yield kind("points", {"points": 20}, {"points": 33}, points=numbers("batch,points,3"))
    yield kind("neighbours", points=numbers("batch,16,3"))
    yield kind("sets", {"items": 6}, {"items": 13}, items=numbers("batch,items,4"))
    yield kind("policy", state=numbers("batch,12"), allowed=("bool[batch,6]", below(2)))
    yield kind("spline", features=numbers("batch,5"))
    yield kind("fourier", series=numbers("batch,12,10"))
    yield kind("integers", words=whole("batch,9", 128))


def _computed_kinds() -> Iterator[Entry]:
    def kind(family: str, name: str, *sizes: Mapping[str, int], **inputs: tuple[str, Draw]) -> Entry:
        return _one(family, "window_kinds.py", name, *sizes, **inputs)

    free = ("float32[batch,3,height=8..,width=8..]", picture)
    for name in ("windows", "matched"):
        yield kind("pictures", name, {"height": 24, "width": 24}, {"height": 17, "width": 30}, image=free)
    feature, query = ("float32[batch,16,height=4..,width=4..]", normal), ("float32[batch,queries,16]", normal)
    looked = ({"height": 8, "width": 8, "queries": 5}, {"height": 7, "width": 12, "queries": 9})
    centre = ("float32[batch,queries,2]", unit)
    yield kind("pictures", "deformable", *looked, feature=feature, query=query, centre=centre)
    items, present = ("float32[batch,length,7]", normal), ("bool[batch,length]", mask)
    yield kind("sequences", "perceiver", *_LENGTHS, items=items, present=present)
    yield kind("sequences", "rotary", *_LENGTHS, tokens=("int64[batch,length=1..64]", below(60)))
    yield kind("sequences", "routed", *_LENGTHS, states=("float32[batch,length,8]", normal))
    yield kind("sound", "transcriber", *_LENGTHS, mel=("float32[batch,6,length]", normal))
    graph = ({"nodes": 7, "edges": 20}, {"nodes": 10, "edges": 9})
    nodes, edges = ("float32[batch,nodes,5]", normal), ("int64[batch,edges,2]", below(7))
    yield kind("tables and graphs", "edge_attention", *graph, nodes=nodes, edges=edges)


_TEXTS = """
bert bert_sdpa distilbert roberta albert electra deberta_v2 mpnet mobilebert squeezebert convbert modernbert gpt2
gpt_neo gpt_neox opt bloom llama llama_sdpa qwen2 qwen3 mistral gemma phi falcon
"""
_SEEN = """
vit deit beit dinov2 segformer mobilenet_v2 pvt_v2 yolos siglip_vision
"""


def _transformers() -> Iterator[Entry]:
    def kind(name: str, *sizes: Mapping[str, int], **inputs: tuple[str, Draw]) -> Entry:
        return _one("transformers", "transformers_nets.py", name, *sizes, **inputs)

    ids = ("int64[batch,length]", below(300, 3))
    masked = {"input_ids": ids, "attention_mask": ("int64[batch,length]", mask)}
    for name in _TEXTS.split():
        yield kind(name, *_LENGTHS, **masked)
    yield kind("fnet", *_LENGTHS, input_ids=ids)
    yield kind("mamba", input_ids=("int64[batch,11]", below(300, 3)))  # its scan is a loop in Python, step by step
    both = ({"length": 9, "said": 6}, {"length": 5, "said": 8})
    for name in ("t5", "bart"):
        yield kind(name, *both, **masked, decoder_input_ids=("int64[batch,said]", below(300, 3)))
    image = ("float32[batch,3,64,64]", picture)
    for name in _SEEN.split():
        yield kind(name, image=image)
    yield kind("clip", {"length": 9}, {"length": 5}, **masked, pixel_values=image)
    mel = ("float32[batch,40,64]", normal)
    yield kind("whisper_encoder", features=mel)
    yield kind(
        "whisper", {"said": 6}, {"said": 9}, features=mel, decoder_input_ids=("int64[batch,said]", below(300, 3))
    )
    for name in ("wav2vec2", "hubert"):
        yield kind(name, input_values=("float32[batch,1000]", wave))
    yield kind("audio_spectrogram", input_values=("float32[batch,64,32]", normal))
    yield kind("patchtst", past_values=("float32[batch,32,3]", normal))


def _packaged() -> Iterator[Entry]:
    def kind(name: str, *sizes: Mapping[str, int], **inputs: tuple[str, Draw]) -> Entry:
        return _one("packaged", "packaged_nets.py", name, *sizes, **inputs)

    def given(name: str, file: str, spec: str, draw: Draw, *sizes: Mapping[str, int]) -> Entry:
        return Entry(f"packaged/{name}", "packaged", file, {spec: draw}, sizes or ({},))

    masked = {"input_ids": ("int64[batch,length]", below(30000)), "attention_mask": ("int64[batch,length]", mask)}
    yield kind("sentence", *_LENGTHS, **masked)
    yield kind("crepe_tiny", wave=("float32[batch,1024]", wave))
    yield kind("resemblyzer", {"frames": 40}, {"frames": 57}, mel=("float32[batch,frames,40]", unit))
    for name, size in (("pnet", 24), ("rnet", 24), ("onet", 48)):
        yield kind(name, image=(f"float32[batch,3,{size},{size}]", picture))
    yield kind("efficientnet_lite0", image=("float32[batch,3,96,96]", picture))
    state = ("float32[batch,128]", unit)
    yield kind("voice_activity", chunk=("float32[batch,576]", wave), hidden=state, cell=state)
    yield given("magika", "magika/models/standard_v3_3/model.onnx", "bytes=int32[batch,2048]", _bytes)
    yield given("nudenet", "nudenet/320n.onnx", "images=float32[batch,3,height,width]", picture,
                {"height": 64, "width": 64}, {"height": 96, "width": 64})  # fmt: skip
    ocr = "rapidocr_onnxruntime/models"
    # The least sizes are those for which these are: below them nothing is left of the picture on the way.
    page, line = "x=float32[batch,3,height=32..,width=32..]", "x=float32[batch,3,48,width=48..]"
    yield given("ocr_detection", f"{ocr}/ch_PP-OCRv4_det_infer.onnx", page, _writing,
                {"height": 64, "width": 64}, {"height": 64, "width": 96})  # fmt: skip
    yield given("ocr_recognition", f"{ocr}/ch_PP-OCRv4_rec_infer.onnx", line, _writing, {"width": 96}, {"width": 120})
    square = "x=float32[batch,3,side=48..,side=48..]"  # the file calls both axes "?"
    yield given("ocr_angle", f"{ocr}/ch_ppocr_mobile_v2.0_cls_infer.onnx", square, _writing, {"side": 48}, {"side": 64})
    pitch = "serving_default_input_2:0=float32[batch,43844,1]"
    yield given("basic_pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx", pitch, _long_wave)


def _bytes(rng: Any, shape: tuple[int, ...]) -> Any:
    """Files by their bytes: each of an alphabet of its own, some ended early (256 stands for what is beyond an end)."""
    low, width = rng.integers(0, 128, (2, shape[0], 1))
    found = low + rng.integers(0, 128, shape) % (width + 1)
    ends = rng.integers(shape[1] // 4, 2 * shape[1], (shape[0], 1))
    return np.where(np.arange(shape[1]) < ends, found, 256)


def _writing(rng: Any, shape: tuple[int, ...]) -> Any:
    """Pages with lines of dark strokes on light ground: of anything else, a finder of text says nothing but zero."""
    page = np.ones((shape[0], 1, *shape[2:]))
    for sheet in page[:, 0]:
        for top in range(rng.integers(2, 8), shape[2] - 12, 15):
            for left in range(rng.integers(2, 8), shape[3] - 6, rng.integers(3, 7)):
                sheet[top + rng.integers(0, 5) : top + 11, left : left + rng.integers(1, 3)] = -1
                sheet[top + 5, left : left + rng.integers(1, 6)] = -1
    return np.repeat(page, shape[1], 1) + 0.05 * rng.standard_normal(shape)


def _long_wave(rng: Any, shape: tuple[int, ...]) -> Any:
    """Sounds whose time is the second axis."""
    return wave(rng, (shape[0], shape[2], shape[1])).swapaxes(1, 2)


def entries() -> tuple[Entry, ...]:
    """Every model of the zoo, by family."""
    return (
        *_image_kinds(),
        *_sequence_kinds(),
        *_sound_kinds(),
        *_table_kinds(),
        *_computed_kinds(),
        *_transformers(),
        *_packaged(),
        *_pictures("torchvision", "torchvision_nets.py", _TORCHVISION),
        *_pictures("timm", "timm_nets.py", _TIMM),
    )
