"""What a transformers model takes, by its kind: text, pictures, film or sound. Worker only."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..signature import TensorSpec

if TYPE_CHECKING:
    import torch

_SECOND = 16000  # samples of sound in a second, at the rate that such models are trained on
_SIDE = 224  # of a picture, where nothing says it
_FRAMES = 200  # of a spectrum, where it may have any number
_PLACES = ("image_token_id", "image_token_index")  # the word that stands for a piece of a picture


def transformers_inputs(model: torch.nn.Module, folder: Path) -> tuple[TensorSpec, ...] | None:
    """The inputs of a model, called as forward calls them; None where its configuration does not tell.

    `folder` may hold preprocessor_config.json, which says how large pictures are.
    """
    config: Any = model.config
    taken = frozenset(inspect.signature(model.forward).parameters)
    main = str(getattr(model, "main_input_name", ""))
    both = {"input_ids", "pixel_values"} <= taken
    if both and any(getattr(config, name, None) is not None for name in _PLACES):
        return None  # the words hold places for the picture, as many as a processor says
    found: tuple[TensorSpec, ...] = ()
    if main == "input_ids" or both:
        found += _text(config, taken)
    if main == "pixel_values" or both:
        found += _pictures(config, folder)
    if main in ("input_values", "input_features"):
        found += _sound(model, main)
    if found and getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in taken:
        found += (_words("decoder_input_ids", "decoder_tokens"),)
    return found or None


def _text(config: Any, taken: frozenset[str]) -> tuple[TensorSpec, ...]:
    names = ["input_ids"]
    if "attention_mask" in taken:
        names.append("attention_mask")
    if "token_type_ids" in taken and (getattr(config, "type_vocab_size", 0) or 0) > 1:
        names.append("token_type_ids")
    return tuple(_words(name, "tokens") for name in names)


def _words(name: str, axis: str) -> TensorSpec:
    return TensorSpec(name, "int64", ("batch", axis))


def _pictures(config: Any, folder: Path) -> tuple[TensorSpec, ...]:
    seen = _seeing(config)
    said = getattr(seen, "image_size", None) or getattr(seen, "input_size", None)
    size = said or _prepared(folder) or _SIDE
    height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    frames = [count for count in [getattr(seen, "num_frames", None)] if isinstance(count, int)]
    channels = getattr(seen, "num_channels", 3)
    return (TensorSpec("pixel_values", "float32", ("batch", *frames, channels, height, width)),)


def _seeing(config: Any) -> Any:
    """The part of a configuration that is about pictures."""
    parts = (getattr(config, name, None) for name in ("vision_config", "backbone_config", "encoder"))
    return next((part for part in parts if hasattr(part, "num_channels") or hasattr(part, "image_size")), config)


def _prepared(folder: Path) -> int | tuple[int, int] | None:
    """How large the pictures are that a processor makes for the model."""
    try:
        said = json.loads((folder / "preprocessor_config.json").read_bytes())
        size = said.get("crop_size") if said.get("do_center_crop") else said.get("size")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    if isinstance(size, int):
        return size
    if isinstance(size, Mapping) and {"height", "width"} <= set(size):
        return int(size["height"]), int(size["width"])
    if isinstance(size, Mapping) and "shortest_edge" in size:
        return int(size["shortest_edge"])
    return None


def _sound(model: torch.nn.Module, name: str) -> tuple[TensorSpec, ...]:
    """Waves are of one second; spectra as long as the model is made for."""
    config: Any = model.config
    if name == "input_features":
        return _spectra(config)
    bins = getattr(config, "num_mel_bins", None)
    if bins and hasattr(config, "max_length"):  # the audio spectrogram transformer: time first
        return (TensorSpec(name, "float32", ("batch", config.max_length, bins)),)
    if hasattr(model, "encode") and hasattr(model, "decode"):  # a codec: its waves have channels
        return (TensorSpec(name, "float32", ("batch", getattr(config, "audio_channels", 1), _SECOND)),)
    return (TensorSpec(name, "float32", ("batch", _SECOND)),)


def _spectra(config: Any) -> tuple[TensorSpec, ...]:
    bins, longest = getattr(config, "num_mel_bins", None), getattr(config, "max_source_positions", None)
    width = getattr(config, "feature_projection_input_dim", None)
    if hasattr(config, "input_feat_per_channel"):  # Speech2Text: time first, any length
        shape: tuple[int, ...] = (_FRAMES, config.input_feat_per_channel * config.input_channels)
    elif bins and longest:
        shape = (bins, 2 * longest)
    elif width:
        shape = (100, width)
    else:
        return ()
    return (TensorSpec("input_features", "float32", ("batch", *shape)),)
