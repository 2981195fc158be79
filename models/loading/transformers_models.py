"""Models of transformers: load one from a folder of this machine, and tell the inputs that any of them takes.

Nothing is fetched, no code of the folder is run, and transformers itself reads no file: the configuration is a JSON
document, and weight_files.py reads the weights. Worker only, but for `folder_files`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from ..errors import BadRequest
from ..library_messages import first_line
from ..signature import TensorSpec
from .checkpoints.file_head import WEIGHT_NAMES
from .torchvision_ops import register_torchvision_stubs
from .weight_files import add_note, few, read_weight_file, shards_of

if TYPE_CHECKING:
    import torch

CONFIG = "config.json"
_PICTURES = "preprocessor_config.json"  # gives the size of pictures, where the configuration does not
_CONFIG_BYTES = 16 << 20
MOST_LAYERS = 10_000
_CODE_KEYS = (
    "auto_map", "attn_implementation", "_attn_implementation", "_attn_implementation_internal", "custom_pipelines",
)  # fmt: skip
_ATTENTION = ("eager", "sdpa")
_SECOND = 16000  # samples of sound in a second, at the rate that such models are trained on
_SIDE = 224  # of a picture, where no configuration gives it
_FRAMES = 200  # of a spectrum, where it may have any number
_PLACES = ("image_token_id", "image_token_index")  # the word that stands for a piece of a picture

_Config: TypeAlias = Any  # a configuration of transformers: each model has fields of its own


class _WeightsReport(TypedDict):  # of from_pretrained with output_loading_info
    missing_keys: Collection[str]
    mismatched_keys: Collection[tuple[str, Sequence[int], Sequence[int]]]  # name, shape in the file, shape of the model
    unexpected_keys: Collection[str]


def folder_files(folder: Path) -> list[Path]:
    """List the files of the model in `folder`; the first is its configuration, the second its weights.
    Raises BadRequest where the folder holds no model of transformers."""
    if not folder.is_dir():
        raise BadRequest(f"no such folder: {folder}", fix="check the path; hf: takes a folder of this machine")
    if not (folder / CONFIG).is_file():
        raise BadRequest(
            f"{folder} holds no model of transformers: there is no {CONFIG}", fix="name a folder of save_pretrained"
        )
    if (folder / "adapter_config.json").is_file():
        raise BadRequest(
            f"{folder} holds an adapter, not a whole model", fix="merge it: merge_and_unload(), save_pretrained(FOLDER)"
        )
    weights = next((folder / name for name in WEIGHT_NAMES if (folder / name).is_file()), None)
    if weights is None:
        raise BadRequest(
            f"{folder} holds no weights: there is no {WEIGHT_NAMES[0]}", fix="save them: model.save_pretrained(FOLDER)"
        )
    shards = shards_of(weights) if weights.suffix == ".json" else []
    more = [folder / _PICTURES] if (folder / _PICTURES).is_file() else []
    return [folder / CONFIG, weights, *shards, *more]


def folder_factory(name: str) -> Callable[..., torch.nn.Module]:
    """Return the factory of the model in the folder `name`.

    It takes the fields of the configuration, dtype (float32 unless set) and attn_implementation (eager unless set).
    Raises BadRequest where there is no such model, or it would need code of its own."""
    config_file, weights, *_ = folder_files(Path(name))
    return partial(_make, Path(name), _document(config_file), weights)


def _document(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _CONFIG_BYTES:
            raise ValueError(f"it is larger than {_CONFIG_BYTES >> 20} MiB")
        document = json.loads(path.read_bytes(), object_hook=_decode_number)
        if not isinstance(document, dict):
            raise TypeError(f"it holds a {type(document).__name__}")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise BadRequest(f"{path} is no configuration: {error}", fix="copy the folder again") from error
    if deep := next((key for key, value in _integers(document) if "layer" in key and value > MOST_LAYERS), None):
        raise BadRequest(
            f"{path} asks for more layers ({deep}) than the {MOST_LAYERS:,} that are made",
            fix="copy the folder again",
        )
    if quantised := document.get("quantization_config"):
        method = quantised.get("quant_method") if isinstance(quantised, dict) else None
        raise BadRequest(
            f"{path.parent} holds weights quantised by {method or 'an unnamed method'}",
            fix="convert the model as it was before that",
        )
    return document


def _integers(document: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the integers of a document with the key that each stands under."""
    pending: list[tuple[str, Any]] = [*document.items()]  # a document could exceed the limit of recursion
    while pending:
        key, value = pending.pop()
        if isinstance(value, Mapping):
            pending += value.items()
        elif isinstance(value, list):
            pending += [(key, part) for part in value]
        elif isinstance(value, int):
            yield key, value


def _decode_number(value: dict[str, object]) -> object:
    """Return a dict of the document, or the number that transformers writes as one where JSON has none.
    {"__float__": "Infinity"} is in every configuration of Mamba2 (PreTrainedConfig._encode_special_floats)."""
    tag = value.get("__float__") if len(value) == 1 else None
    return float(tag) if tag in ("Infinity", "-Infinity", "NaN") else value


def _make(folder: Path, document: Mapping[str, object], weights: Path, /, **settings: Any) -> torch.nn.Module:
    import torch

    dtype = settings.pop("dtype", "float32")
    attention = settings.pop("attn_implementation", "eager")
    if attention not in _ATTENTION:
        raise BadRequest(f"attn_implementation is {' or '.join(_ATTENTION)}, got {attention!r}", fix="set one of them")
    if dtype not in ("float32", "float16", "bfloat16", "float64"):
        raise BadRequest(f"dtype {dtype!r} is none of a model's", fix="set float32, float16, bfloat16 or float64")
    kind = _class(folder, document)
    config = _config(kind, document, settings)
    state = read_weight_file(weights)
    model, report = _load(kind, config, state, folder, dtype=getattr(torch, dtype), attn_implementation=attention)
    _check_complete(report, weights, kind.__name__)
    _add_notes(model, report, state, weights, dtype)
    return model


def _load(
    kind: Any, config: Any, state: Mapping[str, torch.Tensor], folder: Path, **more: object
) -> tuple[torch.nn.Module, _WeightsReport]:
    """Load the model, and return it with transformers' report on its weights.
    transformers renames weights of former versions, and ties some."""
    try:
        model, report = kind.from_pretrained(
            None, config=config, state_dict=dict(state), output_loading_info=True, local_files_only=True,
            ignore_mismatched_sizes=True, use_safetensors=True, trust_remote_code=False, **more,
        )  # fmt: skip
    except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, NotImplementedError, ImportError) as error:
        raise BadRequest(
            f"transformers cannot make the model in {folder}: {first_line(error, 300)}",
            fix="save it again with save_pretrained, or mend config.json",
        ) from error
    return model, report


def _check_complete(report: _WeightsReport, weights: Path, kind: str) -> None:
    """Raise BadRequest where weights are missing: transformers fills in random numbers, and warns."""
    if lacking := sorted(report["missing_keys"]):
        more = " and others" if len(lacking) > 3 else ""
        raise BadRequest(
            f"{weights} lacks weights of {kind}: {', '.join(lacking[:3])}{more}",
            fix="save the whole model with save_pretrained, or mend architectures in config.json",
        )
    if report["mismatched_keys"]:
        name, there, wanted = min(report["mismatched_keys"])
        raise BadRequest(
            f"{name} is {list(there)} in {weights}, and {list(wanted)} by the configuration of {kind}",
            fix="mend config.json, or leave out the --set that changed it",
        )
    if extra := sorted(report["unexpected_keys"]):
        print(f"{kind} has no use for {', '.join(extra)}")


def _class(folder: Path, document: Mapping[str, object]) -> Any:
    """Return the class of transformers that the configuration names."""
    register_torchvision_stubs()
    import transformers

    names = document.get("architectures")
    name = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None
    if name is None:
        raise BadRequest(
            f"{folder / CONFIG} names no architecture",
            fix='say which class it is, as in "architectures": ["BertModel"]',
        )
    kind = getattr(transformers, name, None) if name.isidentifier() else None
    if not (inspect.isclass(kind) and issubclass(kind, transformers.PreTrainedModel)):
        own = "; code in the folder is not run" if document.get("auto_map") else ""
        raise BadRequest(
            f"transformers {transformers.__version__} has no model {name!r}{own}",
            fix="write a FILE.py with a function that makes it, and name FILE.py:FUNCTION",
        )
    return kind


def _config(kind: Any, document: Mapping[str, object], settings: Mapping[str, object]) -> Any:
    """Make the configuration with the settings in it, without keys that would fetch code, and without a cache.
    A decoder's cache from one word to the next is no output of a model that is called once."""
    try:
        config = kind.config_class.from_dict(_without_code(document))
    except Exception as error:  # transformers and huggingface_hub check it, both with errors of their own
        raise BadRequest(
            f"{CONFIG} is no configuration of {kind.__name__}: {first_line(error, 300)}", fix="mend it"
        ) from error
    known = list(config.to_dict())
    for name, value in settings.items():
        if not hasattr(config, name):
            near = get_close_matches(name, known, n=3)
            fix = f"did you mean {' or '.join(near)}?" if near else f"{CONFIG} lists what it takes"
            raise BadRequest(f"{kind.__name__} takes no {name!r}", fix=fix)
        setattr(config, name, value)
    for part in (config, *(getattr(config, name, None) for name in ("text_config", "decoder", "encoder"))):
        if hasattr(part, "use_cache"):
            part.use_cache = False
    return config


def _without_code(value: object) -> object:
    """Return the document without keys that name code, here or on a hub, also in configurations inside it."""
    if isinstance(value, Mapping):
        return {key: _without_code(part) for key, part in value.items() if key not in _CODE_KEYS}
    return value


def _add_notes(
    model: torch.nn.Module, report: _WeightsReport, state: Mapping[str, torch.Tensor], weights: Path, dtype: str
) -> None:
    """Note what transformers reports on the weights, in a table that nobody reads."""
    if extra := sorted(report["unexpected_keys"]):
        add_note(model, f"{type(model).__name__} has no use for {few(extra)} in {weights.name}")
    kinds = sorted({str(value.dtype).removeprefix("torch.") for value in state.values() if value.is_floating_point()})
    if kinds and kinds != [dtype]:
        add_note(model, f"the weights in {weights.name} are {' and '.join(kinds)}, and are taken as {dtype}")


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
        document = json.loads((folder / _PICTURES).read_bytes())
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
