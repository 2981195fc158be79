"""transformers' architectures out of small configurations, with random weights: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from zoo_weights import pictures, realistic

# What most configurations share; every class takes the keys that it knows.
_TEXT: dict[str, Any] = {
    "vocab_size": 300, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
    "max_position_embeddings": 64, "type_vocab_size": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "attn_implementation": "eager", "use_cache": False, "num_labels": 5,
}  # fmt: skip
_PICTURE: dict[str, Any] = {
    "image_size": 64, "patch_size": 16, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 96, "attn_implementation": "eager", "num_labels": 5,
}  # fmt: skip


class Asked(nn.Module):
    """A model called with named tensors, and the outputs that are served, in order."""

    def __init__(self, inner: nn.Module, names: tuple[str, ...], wanted: tuple[str, ...]) -> None:
        super().__init__()
        self.inner, self.names, self.wanted = inner, names, wanted

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...] | Tensor:
        given = self.inner(**dict(zip(self.names, inputs, strict=True)))
        found = tuple(getattr(given, name) for name in self.wanted)
        return found[0] if len(found) == 1 else found


class TwoInputs(Asked):
    """The same with a signature of two: exporters name inputs by it."""

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, ...] | Tensor:  # type: ignore[override]
        return super().forward(first, second)


class OneInput(Asked):
    """The same with a signature of one."""

    def forward(self, only: Tensor) -> tuple[Tensor, ...] | Tensor:  # type: ignore[override]
        return super().forward(only)


class ThreeInputs(Asked):
    """The same with a signature of three."""

    def forward(self, first: Tensor, second: Tensor, third: Tensor) -> tuple[Tensor, ...] | Tensor:  # type: ignore[override]
        return super().forward(first, second, third)


_ARITY = {1: OneInput, 2: TwoInputs, 3: ThreeInputs}
_MASKED = ("input_ids", "attention_mask")


def _make(
    config: str, model: str, names: tuple[str, ...], wanted: tuple[str, ...], shared: dict[str, Any], **more: Any
) -> nn.Module:
    import transformers

    settings = {**shared, **more}
    inner = getattr(transformers, model)(getattr(transformers, config)(**settings))
    return _ARITY[len(names)](inner, names, wanted)


def _text(config: str, model: str, wanted: str = "logits", **more: Any) -> Callable[[], nn.Module]:
    return lambda: realistic(_make(config, model, _MASKED, (wanted,), _TEXT, **more))


def _tokens(config: str, model: str, wanted: str = "logits", **more: Any) -> Callable[[], nn.Module]:
    return lambda: realistic(_make(config, model, ("input_ids",), (wanted,), _TEXT, **more))


def _picture(config: str, model: str, wanted: str = "logits", **more: Any) -> Callable[[], nn.Module]:
    return lambda: realistic(_make(config, model, ("pixel_values",), (wanted,), _PICTURE, **more), *pictures(64))


def _sound(config: str, model: str, wanted: str, **more: Any) -> Callable[[], nn.Module]:
    return lambda: realistic(_make(config, model, ("input_values",), (wanted,), _TEXT, **more))


def t5() -> nn.Module:
    names = ("input_ids", "attention_mask", "decoder_input_ids")
    sizes = {"d_model": 48, "d_kv": 12, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 300}
    more = {"use_cache": False, "decoder_start_token_id": 0, "pad_token_id": 0}
    return realistic(_make("T5Config", "T5ForConditionalGeneration", names, ("logits",), {}, **sizes, **more))


def bart() -> nn.Module:
    names = ("input_ids", "attention_mask", "decoder_input_ids")
    sizes = {
        "d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96,
    }  # fmt: skip
    return realistic(_make("BartConfig", "BartForConditionalGeneration", names, ("logits",), _TEXT, **sizes))


def whisper_encoder() -> nn.Module:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        vocab_size=300, d_model=48, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=96,
        decoder_layers=1, num_mel_bins=40, max_source_positions=32, attn_implementation="eager",
    )  # fmt: skip
    return realistic(OneInput(WhisperEncoder(config), ("input_features",), ("last_hidden_state",)))


def whisper() -> nn.Module:
    sizes = {
        "vocab_size": 300, "d_model": 48, "encoder_layers": 1, "encoder_attention_heads": 4, "encoder_ffn_dim": 96,
        "decoder_layers": 1, "decoder_attention_heads": 4, "decoder_ffn_dim": 96, "num_mel_bins": 40,
        "max_source_positions": 32, "max_target_positions": 32, "use_cache": False, "attn_implementation": "eager",
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    }  # fmt: skip
    names = ("input_features", "decoder_input_ids")
    return realistic(_make("WhisperConfig", "WhisperForConditionalGeneration", names, ("logits",), {}, **sizes))


def clip() -> nn.Module:
    from transformers import CLIPConfig, CLIPModel

    config = CLIPConfig(
        text_config={**_TEXT, "projection_dim": 24}, vision_config={**_PICTURE, "projection_dim": 24},
        projection_dim=24, attn_implementation="eager",
    )  # fmt: skip
    names = ("input_ids", "attention_mask", "pixel_values")
    wanted = ("logits_per_image", "text_embeds", "image_embeds")
    return realistic(ThreeInputs(CLIPModel(config), names, wanted))


def siglip_vision() -> nn.Module:
    return _picture("SiglipVisionConfig", "SiglipVisionModel", "pooler_output")()


def mamba() -> nn.Module:
    more = {"state_size": 8, "expand": 2, "conv_kernel": 4, "time_step_rank": 4}
    return realistic(_make("MambaConfig", "MambaForCausalLM", ("input_ids",), ("logits",), _TEXT, **more))


_W2V = {
    "conv_dim": (24, 24, 24), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3), "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0, "layerdrop": 0.0,
}  # fmt: skip
_NETS: dict[str, Callable[[], nn.Module]] = {
    "bert": _text("BertConfig", "BertForSequenceClassification"),
    "bert_sdpa": _text("BertConfig", "BertForTokenClassification", attn_implementation="sdpa"),
    "distilbert": _text(
        "DistilBertConfig", "DistilBertForSequenceClassification", dim=48, n_layers=2, n_heads=4, hidden_dim=96
    ),
    "roberta": _text("RobertaConfig", "RobertaForSequenceClassification", max_position_embeddings=66),
    "albert": _text("AlbertConfig", "AlbertForSequenceClassification", embedding_size=24),
    "electra": _text("ElectraConfig", "ElectraForSequenceClassification", embedding_size=24),
    "deberta_v2": _text(
        "DebertaV2Config", "DebertaV2ForSequenceClassification", relative_attention=True, position_buckets=16,
        pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm", share_att_key=True,
    ),
    "mpnet": _text("MPNetConfig", "MPNetModel", "last_hidden_state"),
    "mobilebert": _text(
        "MobileBertConfig", "MobileBertForSequenceClassification", embedding_size=24, intra_bottleneck_size=24,
        true_hidden_size=24,
    ),
    "squeezebert": _text("SqueezeBertConfig", "SqueezeBertForSequenceClassification", embedding_size=48),
    "convbert": _text("ConvBertConfig", "ConvBertForSequenceClassification", embedding_size=48, head_ratio=2),
    "fnet": _tokens("FNetConfig", "FNetForSequenceClassification"),
    "modernbert": _text("ModernBertConfig", "ModernBertForSequenceClassification", local_attention=8),
    "gpt2": _text("GPT2Config", "GPT2LMHeadModel", n_embd=48, n_layer=2, n_head=4, n_positions=64),
    "gpt_neo": _text(
        "GPTNeoConfig", "GPTNeoForCausalLM", num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
        window_size=4,
    ),
    "gpt_neox": _text("GPTNeoXConfig", "GPTNeoXForCausalLM"),
    "opt": _text("OPTConfig", "OPTForCausalLM", ffn_dim=96, word_embed_proj_dim=48),
    "bloom": _text("BloomConfig", "BloomForCausalLM", n_layer=2, n_head=4),
    "llama": _text("LlamaConfig", "LlamaForCausalLM", num_key_value_heads=2),
    "llama_sdpa": _text("LlamaConfig", "LlamaForCausalLM", num_key_value_heads=2, attn_implementation="sdpa"),
    "qwen2": _text("Qwen2Config", "Qwen2ForCausalLM", num_key_value_heads=2),
    "qwen3": _text("Qwen3Config", "Qwen3ForCausalLM", num_key_value_heads=2, head_dim=12),
    "mistral": _text("MistralConfig", "MistralForCausalLM", num_key_value_heads=2, sliding_window=6),
    "gemma": _text("GemmaConfig", "GemmaForCausalLM", num_key_value_heads=2, head_dim=12),
    "phi": _text("PhiConfig", "PhiForCausalLM"),
    "falcon": _text("FalconConfig", "FalconForCausalLM", alibi=True, new_decoder_architecture=False),
    "mamba": mamba,
    "t5": t5,
    "bart": bart,
    "whisper_encoder": whisper_encoder,
    "whisper": whisper,
    "clip": clip,
    "siglip_vision": siglip_vision,
    "vit": _picture("ViTConfig", "ViTForImageClassification"),
    "deit": _picture("DeiTConfig", "DeiTForImageClassification"),
    "beit": _picture("BeitConfig", "BeitForImageClassification", use_relative_position_bias=True),
    "dinov2": _picture("Dinov2Config", "Dinov2ForImageClassification"),
    "segformer": _picture(
        "SegformerConfig", "SegformerForSemanticSegmentation", depths=[1, 1, 1, 1], hidden_sizes=[16, 24, 32, 48],
        num_attention_heads=[1, 2, 4, 4], decoder_hidden_size=32,
    ),
    "mobilenet_v2": _picture("MobileNetV2Config", "MobileNetV2ForImageClassification"),
    "pvt_v2": _picture(
        "PvtV2Config", "PvtV2ForImageClassification", depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 40, 48],
        num_attention_heads=[1, 2, 4, 4],
    ),
    "yolos": _picture("YolosConfig", "YolosForObjectDetection", image_size=[64, 64], num_detection_tokens=6),
    "wav2vec2": _sound(
        "Wav2Vec2Config", "Wav2Vec2ForCTC", "logits", feat_extract_norm="layer", do_stable_layer_norm=True, **_W2V
    ),
    "hubert": _sound("HubertConfig", "HubertModel", "last_hidden_state", feat_extract_norm="group", **_W2V),
    "audio_spectrogram": _sound(
        "ASTConfig", "ASTForAudioClassification", "logits", num_mel_bins=32, max_length=64, patch_size=16,
        frequency_stride=10, time_stride=10,
    ),
    "patchtst": lambda: realistic(
        _make(
            "PatchTSTConfig", "PatchTSTForPrediction", ("past_values",), ("prediction_outputs",), {},
            num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, d_model=24, num_hidden_layers=2,
            num_attention_heads=4, ffn_dim=48, prediction_length=6,
        ),
        [torch.randn(8, 32, 3)],
    ),
}  # fmt: skip


def __getattr__(name: str) -> Callable[[], nn.Module]:
    if name in _NETS:
        return _NETS[name]
    raise AttributeError(name)
