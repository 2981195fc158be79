"""Inputs of a transformers model by its kind: text, pictures, film or sound. Worker only."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..signature import TensorSpec

if TYPE_CHECKING:
    import torch

_Config: TypeAlias = Any  # a configuration of transformers: each model has fields of its own

_SECOND = 16000  # samples of sound in a second, at the rate that such models are trained on
_SIDE = 224  # of a picture, where no configuration gives it
_FRAMES = 200  # of a spectrum, where it may have any number
_PLACES = ("image_token_id", "image_token_index")  # the word that stands for a piece of a picture


def transformers_inputs(model: torch.nn.Module, folder: Path) -> tuple[TensorSpec, ...] | None:
    """Return the inputs of a model, with forward's names; None where its configuration does not tell them.
    `folder` may hold preprocessor_config.json, which says how large pictures are."""
    config: _Config = model.config
    parameters = frozenset(inspect.signature(model.forward).parameters)
    main = str(getattr(model, "main_input_name", ""))
    both = {"input_ids", "pixel_values"} <= parameters
    if both and any(getattr(config, name, None) is not None for name in _PLACES):
        return None  # the words hold places for the picture, whose number a processor knows
    inputs: tuple[TensorSpec, ...] = ()
    if main == "input_ids" or both:
        inputs += _text(config, parameters)
    if main == "pixel_values" or both:
        inputs += _pictures(config, folder)
    if main in ("input_values", "input_features"):
        inputs += _sound(model, main)
    if inputs and getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in parameters:
        inputs += (_words("decoder_input_ids", "decoder_tokens"),)
    return inputs or None


def _text(config: _Config, parameters: frozenset[str]) -> tuple[TensorSpec, ...]:
    names = ["input_ids"]
    if "attention_mask" in parameters:
        names.append("attention_mask")
    if "token_type_ids" in parameters and (getattr(config, "type_vocab_size", 0) or 0) > 1:
        names.append("token_type_ids")
    return tuple(_words(name, "tokens") for name in names)


def _words(name: str, axis: str) -> TensorSpec:
    return TensorSpec(name, "int64", ("batch", axis))


def _pictures(config: _Config, folder: Path) -> tuple[TensorSpec, ...]:
    vision = _vision_config(config)
    declared = getattr(vision, "image_size", None) or getattr(vision, "input_size", None)
    size = declared or _processor_size(folder) or _SIDE
    height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    frames = [count for count in [getattr(vision, "num_frames", None)] if isinstance(count, int)]
    channels = getattr(vision, "num_channels", 3)
    return (TensorSpec("pixel_values", "float32", ("batch", *frames, channels, height, width)),)


def _vision_config(config: _Config) -> _Config:
    """Return the part of a configuration that is about pictures."""
    parts = (getattr(config, name, None) for name in ("vision_config", "backbone_config", "encoder"))
    return next((part for part in parts if hasattr(part, "num_channels") or hasattr(part, "image_size")), config)


def _processor_size(folder: Path) -> int | tuple[int, int] | None:
    """Return the size of the pictures that a processor makes for the model."""
    try:
        document = json.loads((folder / "preprocessor_config.json").read_bytes())
        size = document.get("crop_size") if document.get("do_center_crop") else document.get("size")
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
    """Return an input of sound: waves of one second, or spectra as long as the model is made for."""
    config: _Config = model.config
    if name == "input_features":
        return _spectra(config)
    bins = getattr(config, "num_mel_bins", None)
    if bins and hasattr(config, "max_length"):  # the audio spectrogram transformer: time first
        return (TensorSpec(name, "float32", ("batch", config.max_length, bins)),)
    if hasattr(model, "encode") and hasattr(model, "decode"):  # a codec: its waves have channels
        return (TensorSpec(name, "float32", ("batch", getattr(config, "audio_channels", 1), _SECOND)),)
    return (TensorSpec(name, "float32", ("batch", _SECOND)),)


def _spectra(config: _Config) -> tuple[TensorSpec, ...]:
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
