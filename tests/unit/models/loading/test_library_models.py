"""Models of libraries by name: made with random weights or out of a folder, with what they take; nothing is fetched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.loading.build import construct
from transload.models.loading.code_refs import ref_digest
from transload.models.loading.library_models import known_inputs
from transload.models.loading.source_from_code import take_weights
from transload.models.loading.torchvision_ops import nms, register_torchvision_stubs
from transload.models.loading.weight_files import notes_of
from transload.models.sources import CodeRef, code_ref

register_torchvision_stubs()

# Fields of a configuration that is quick; every class takes those that it knows.
SMALL = {
    "vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 64, "type_vocab_size": 2, "image_size": 32, "patch_size": 16, "d_model": 16,
    "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2, "decoder_start_token_id": 0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def inputs(ref: CodeRef) -> list[str]:
    return [str(spec) for spec in known_inputs(ref, construct(ref)) or ()]


@pytest.mark.parametrize(
    ("text", "settings", "wanted"),
    [
        ("torchvision:squeezenet1_1", {}, ["image=float32[batch,3,224,224]"]),
        ("torchvision:lraspp_mobilenet_v3_large", {"num_classes": 4}, ["image=float32[batch,3,520,520]"]),
        ("torchvision:mc3_18", {"num_classes": 4}, ["video=float32[batch,3,16,112,112]"]),
        ("timm:resnet10t", {"num_classes": 5}, ["image=float32[batch,3,176,176]"]),
        ("timm:resnet10t", {"in_chans": 1}, ["image=float32[batch,1,176,176]"]),
        ("timm:vit_tiny_patch16_224", {"img_size": [32, 64], "depth": 1}, ["image=float32[batch,3,32,64]"]),
    ],
)
def test_what_a_library_says_of_its_models_is_what_they_take(
    text: str, settings: dict[str, Any], wanted: list[str]
) -> None:
    assert inputs(CodeRef(text, None, settings)) == wanted


def test_weights_are_random_the_same_each_time_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = CodeRef("timm:vit_tiny_patch16_224", None, {"img_size": 32, "depth": 1, "num_classes": 3})
    first, second = construct(ref), construct(ref)
    assert all(
        torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    )
    one, other = first(torch.rand(2, 3, 32, 32))
    assert (one - other).abs().min() > 1e-5  # as timm makes it the head is empty, and every answer 0
    deep = construct(CodeRef("torchvision:mobilenet_v3_small", None, {"num_classes": 3}))
    one, other = deep(torch.randn(2, 3, 64, 64))
    assert (one - other).abs().max() > 1e-5  # as torchvision makes it BatchNorm has seen nothing, and it is 1e-8
    assert not any(module.training for module in deep.modules())
    assert notes_of(first) == ["the weights of timm:vit_tiny_patch16_224 are random: --weights names trained ones"]


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        ("torchvision:resnet19", {}, r"torchvision has no model 'resnet19'\n  fix: did you mean resnet18"),
        ("timm:resnet10", {}, r"timm has no model 'resnet10'\n  fix: did you mean resnet10t"),
        ("timm:hf-hub:somebody/theirs", {}, "timm has no model"),
        ("timm:", {}, "timm has no model ''"),
        ("torchvision:squeezenet1_1", {"weights": "DEFAULT"}, "nothing is downloaded\n  fix: save them to a file"),
        ("timm:resnet10t", {"pretrained": True}, "nothing is downloaded"),
        ("timm:resnet10t", {"num_clases": 5}, "cannot be made with num_clases=5: .*unexpected keyword"),
        ("torchvision:squeezenet1_1", {"progress": "x"}, "takes bool, got 'x'"),
    ],
)
def test_what_a_library_does_not_have_or_take_is_one_sentence(text: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        construct(CodeRef(text, None, settings))


def test_a_detector_is_refused_with_what_to_write_instead() -> None:
    ref = CodeRef("torchvision:ssdlite320_mobilenet_v3_large")
    with pytest.raises(BadRequest, match=r"gives as many boxes as a picture shows.*\n  fix: write a FILE\.py"):
        known_inputs(ref, construct(ref))


def test_saying_not_to_fetch_weights_is_no_setting() -> None:
    ref = CodeRef("timm:resnet10t", None, {"pretrained": False, "num_classes": 2})
    assert construct(ref)(torch.rand(1, 3, 32, 32)).shape == (1, 2)


def test_torchvisions_own_operators_are_left_alone_or_replaced_and_users_code_may_import_it(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("from torchvision.ops import nms\nNMS = nms\n")
    code = (
        "import torch; from transload.models.sources import CodeRef\n"
        "from transload.models.loading.user_code import load_object\n"
        f"nms = load_object(CodeRef('net.py:NMS', {str(tmp_path)!r}))\n"
        "boxes = torch.tensor([[0., 0, 9, 9], [1, 1, 9, 9], [5, 5, 20, 20]])\n"
        "print(nms(boxes, torch.tensor([.5, .9, .1]), .5).tolist())"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[1, 2]\n", done.stderr


def test_suppression_keeps_the_best_of_what_overlaps() -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 9], [20, 20, 30, 30], [0, 0, 1, 1]])
    scores = torch.tensor([0.3, 0.8, 0.5, 0.9])
    assert nms(boxes, scores, 0.5).tolist() == [3, 1, 2]
    assert nms(boxes[:0], scores[:0], 0.5).tolist() == []


def save(folder: Path, config: str, model: str, **fields: Any) -> Path:
    """A model of transformers in a folder, as save_pretrained writes it."""
    import transformers

    kind = getattr(transformers, config)
    known = kind().to_dict()
    made = kind(**{**{name: value for name, value in SMALL.items() if name in known}, **fields})
    torch.manual_seed(1)
    getattr(transformers, model)(made).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("hf") / "bert", "BertConfig", "BertForSequenceClassification")


def copy(bert: Path, tmp_path: Path, **changes: Any) -> Path:
    folder = Path(shutil.copytree(bert, tmp_path / "bert"))
    config = json.loads((folder / "config.json").read_text())
    config.update(changes)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def ref_to(folder: Path, **settings: Any) -> CodeRef:
    return code_ref(f"hf:{folder.name}", str(folder.parent), settings)


def test_a_folder_gives_its_model_with_its_weights(bert: Path) -> None:
    from transformers import BertForSequenceClassification

    model, theirs = construct(ref_to(bert)), BertForSequenceClassification.from_pretrained(bert).eval()
    tokens = torch.randint(1, 60, (2, 7), generator=torch.Generator().manual_seed(0))
    assert torch.allclose(model(tokens).logits, theirs(tokens).logits, atol=1e-6)
    assert inputs(ref_to(bert)) == [
        f"{name}=int64[batch,tokens]" for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    assert notes_of(model) == []


def test_weights_in_several_files_and_in_a_pickle_that_is_only_weights_are_taken(bert: Path, tmp_path: Path) -> None:
    from transformers import BertForSequenceClassification

    theirs = BertForSequenceClassification.from_pretrained(bert)
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="5KB")
    assert (tmp_path / "shards" / "model.safetensors.index.json").is_file()
    pickled = copy(bert, tmp_path)
    (pickled / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), pickled / "pytorch_model.bin")
    for folder in (tmp_path / "shards", pickled):
        found = construct(ref_to(folder)).state_dict()
        assert all(torch.equal(value, found[name]) for name, value in theirs.state_dict().items())


WORDS = ["input_ids=int64[batch,tokens]", "attention_mask=int64[batch,tokens]"]
TINY = {
    name: SMALL[name]
    for name in (
        "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
        "max_position_embeddings", "image_size", "patch_size", "pad_token_id", "bos_token_id", "eos_token_id",
    )
}  # fmt: skip
ANSWER = "decoder_input_ids=int64[batch,decoder_tokens]"
KINDS: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("RobertaConfig", "RobertaModel", {"type_vocab_size": 1}, WORDS),
    ("ViTConfig", "ViTForImageClassification", {"num_channels": 1}, ["pixel_values=float32[batch,1,32,32]"]),
    ("VideoMAEConfig", "VideoMAEModel", {"num_frames": 4}, ["pixel_values=float32[batch,4,3,32,32]"]),
    (
        "T5Config", "T5ForConditionalGeneration", {"d_kv": 8, "num_layers": 1, "num_heads": 2, "d_ff": 16},
        [*WORDS, ANSWER],
    ),
    (
        "WhisperConfig", "WhisperModel",
        {"encoder_layers": 1, "decoder_layers": 1, "max_source_positions": 20, "num_mel_bins": 8,
         "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16},
        ["input_features=float32[batch,8,40]", ANSWER],
    ),
    (
        "Wav2Vec2Config", "Wav2Vec2Model",
        {"conv_dim": [8], "conv_stride": [50], "conv_kernel": [50], "num_feat_extract_layers": 1,
         "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2},
        ["input_values=float32[batch,16000]"],
    ),
    (
        "Speech2TextConfig", "Speech2TextModel",
        {"encoder_layers": 1, "decoder_layers": 1, "input_feat_per_channel": 8, "conv_channels": 16,
         "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16},
        ["input_features=float32[batch,200,8]", ANSWER],
    ),
    (
        "EncodecConfig", "EncodecModel",
        {"num_filters": 2, "upsampling_ratios": [4, 4], "codebook_size": 8, "codebook_dim": 8, "hidden_size": 8,
         "num_lstm_layers": 1, "audio_channels": 2},
        ["input_values=float32[batch,2,16000]"],
    ),
    (
        "BlipConfig", "BlipForImageTextRetrieval",
        {"text_config": {**TINY, "encoder_hidden_size": 16}, "vision_config": TINY, "image_text_hidden_size": 8},
        [*WORDS, "pixel_values=float32[batch,3,32,32]"],
    ),
    (
        "SiglipConfig", "SiglipModel",
        {"text_config": {**TINY, "projection_size": 16}, "vision_config": TINY},
        [*WORDS, "pixel_values=float32[batch,3,32,32]"],
    ),
    (
        "LayoutLMv3Config", "LayoutLMv3Model",
        {"type_vocab_size": 1, "input_size": 32, "coordinate_size": 3, "shape_size": 2},
        [*WORDS, "pixel_values=float32[batch,3,32,32]"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("config", "model", "fields", "wanted"), KINDS, ids=[kind[1] for kind in KINDS])
def test_a_models_kind_tells_what_it_takes_and_it_takes_that(
    config: str, model: str, fields: dict[str, Any], wanted: list[str], tmp_path: Path
) -> None:
    ref = ref_to(save(tmp_path / "hf", config, model, **fields))
    made = construct(ref)
    specs = known_inputs(ref, made) or ()
    assert [str(spec) for spec in specs] == wanted
    sizes: dict[int | str, int] = {"batch": 2, "tokens": 5, "decoder_tokens": 5}
    given = {
        spec.name: torch.ones([int(sizes.get(axis, axis)) for axis in spec.shape], dtype=getattr(torch, spec.dtype))
        for spec in specs
    }
    made(**given)


def test_pictures_are_as_large_as_the_processor_makes_them(tmp_path: Path) -> None:
    small = {"embedding_size": 8, "hidden_sizes": [8], "depths": [1]}
    ref = ref_to(save(tmp_path / "hf", "ResNetConfig", "ResNetForImageClassification", **small))
    assert inputs(ref) == ["pixel_values=float32[batch,3,224,224]"]
    said = {"do_center_crop": True, "crop_size": {"height": 40, "width": 48}, "size": {"shortest_edge": 60}}
    (tmp_path / "hf" / "preprocessor_config.json").write_text(json.dumps(said))
    assert inputs(ref) == ["pixel_values=float32[batch,3,40,48]"]


def test_words_that_hold_places_for_a_picture_are_nobodys_to_guess(tmp_path: Path) -> None:
    parts = {
        "vision_config": {**TINY, "model_type": "clip_vision_model"},
        "text_config": {**TINY, "model_type": "llama"},
    }
    ref = ref_to(save(tmp_path / "hf", "LlavaConfig", "LlavaForConditionalGeneration", **parts, image_token_index=50))
    assert inputs(ref) == []


def test_a_configuration_with_an_infinity_is_one(tmp_path: Path) -> None:
    """As of every Mamba2: time_step_limit is (0, inf), which transformers writes as {"__float__": "Infinity"}."""
    fields = {"num_heads": 4, "head_dim": 8, "state_size": 4, "n_groups": 1, "chunk_size": 4}
    ref = ref_to(save(tmp_path / "hf", "Mamba2Config", "Mamba2Model", **fields))
    assert "__float__" in (tmp_path / "hf" / "config.json").read_text()
    model: Any = construct(ref)
    assert model.config.time_step_limit == [0.0, float("inf")]


def test_a_librarys_model_that_does_not_answer_is_given_other_inputs_and_not_mended(tmp_path: Path) -> None:
    """Its landmarks are of sequences of one length, which its configuration does not hold the inputs to."""
    fields = {"num_landmarks": 8, "segment_means_seq_len": 16}
    folder = save(tmp_path / "hf", "NystromformerConfig", "NystromformerModel", **fields)
    (tmp_path / "out").mkdir()
    with pytest.raises(BadRequest, match=r"calling hf:.* raised RuntimeError at .*modeling_nystromformer\.py") as told:
        take_weights(Job({}, tmp_path / "out", {"ref": f"hf:{folder}", "root": None}))
    assert told.value.fix.startswith("if it takes other inputs or sizes, name each, as in --input input_ids=int64[")


def test_weights_of_another_dtype_and_weights_without_a_use_are_said(bert: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = copy(bert, tmp_path)
    state = {name: value.bfloat16() for name, value in load_file(folder / "model.safetensors").items()}
    save_file({**state, "left.weight": torch.ones(2)}, folder / "model.safetensors", {"format": "pt"})
    model = construct(ref_to(folder))
    assert model.dtype == torch.float32
    assert notes_of(model) == [
        "BertForSequenceClassification has no use for left.weight in model.safetensors",
        "the weights in model.safetensors are bfloat16 and float32, and are taken as float32",
    ]


REFUSED: dict[str, tuple[Callable[[Path], Any], dict[str, Any], str]] = {
    "no folder": (shutil.rmtree, {}, "no such folder"),
    "no config": (lambda folder: (folder / "config.json").unlink(), {}, "there is no config.json"),
    "a config that is no JSON": (lambda folder: (folder / "config.json").write_text("{"), {}, "is no configuration"),
    "a deep config": (lambda folder: (folder / "config.json").write_text("[" * 200_000), {}, "is no configuration"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), {}, "holds no weights"),
    "cut weights": (lambda folder: os.truncate(folder / "model.safetensors", 500), {}, "not a whole safetensors file"),
    "an adapter": (lambda folder: (folder / "adapter_config.json").write_text("{}"), {}, "holds an adapter"),
    "a setting": (lambda folder: None, {"num_hiden_layers": 2}, r"'num_hiden_layers'\n  fix: did you mean num_hid"),
    "a layer more": (lambda folder: None, {"num_hidden_layers": 2}, r"lacks weights of .*encoder\.layer\.1\."),
    "other labels": (lambda folder: None, {"num_labels": 7}, r"is \[2.*\] in .*, and \[7.*\] by the configuration"),
    "an attention of a hub": (lambda folder: None, {"attn_implementation": "kernels-community/x"}, "is eager or sdpa"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_a_folder_that_holds_no_whole_model_is_one_sentence(kind: str, bert: Path, tmp_path: Path) -> None:
    spoil, settings, words = REFUSED[kind]
    folder = copy(bert, tmp_path)
    spoil(folder)
    with pytest.raises(BadRequest, match=words) as caught:
        construct(ref_to(folder, **settings))
    assert "\n" not in caught.value.what


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architectures": None}, "names no architecture"),
        ({"architectures": ["NoSuchModel"]}, "has no model 'NoSuchModel'\n  fix: write a FILE"),
        ({"architectures": ["Mine"], "auto_map": {"AutoModel": "mine.Mine"}}, "code in the folder is not run"),
        ({"architectures": ["os"]}, "has no model 'os'"),
        ({"architectures": ["AutoModel"]}, "has no model 'AutoModel'"),
        ({"architectures": ["BertConfig"]}, "has no model 'BertConfig'"),
        ({"quantization_config": {"quant_method": "gptq"}}, "holds weights quantised by gptq"),
        ({"quantization_config": [1]}, "holds weights quantised by an unnamed method"),
        ({"num_hidden_layers": 10**9}, r"asks for more layers \(num_hidden_layers\) than the 10,000 that are made"),
        ({"text_config": {"x": [{"encoder_layers": 20_000}]}}, r"asks for more layers \(encoder_layers\)"),
        ({"hidden_size": "many"}, "is no configuration of Bert|cannot make the model"),
        ({"hidden_size": 17}, "cannot make the model|by the configuration"),
    ],
)
def test_a_configuration_that_would_need_more_is_refused(
    changes: dict[str, Any], words: str, bert: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadRequest, match=words):
        construct(ref_to(copy(bert, tmp_path, **changes)))


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("executed"),))


def test_code_in_the_folder_and_pickles_that_run_some_are_never_run(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = copy(
        bert, tmp_path, auto_map={"AutoModelForSequenceClassification": "evil.Net"}, attn_implementation="a/b"
    )
    (folder / "evil.py").write_text("from pathlib import Path\nPath('executed').touch()\n")
    construct(ref_to(folder))
    (folder / "model.safetensors").unlink()
    torch.save({"weight": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(BadRequest, match=r"holds no state dict, but weight \(an object of "):
        construct(ref_to(folder))
    assert not Path("executed").exists()


def test_the_digest_is_of_the_files_that_count(bert: Path, tmp_path: Path) -> None:
    folder = copy(bert, tmp_path)
    before = ref_digest(ref_to(folder))
    (folder / "README.md").write_text("words")
    assert ref_digest(ref_to(folder)) == before
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    assert ref_digest(ref_to(folder)) != before
    assert ref_digest(CodeRef("timm:a")) != ref_digest(CodeRef("torchvision:a"))
