"""A transformers model out of a folder of this machine: its configuration, and weights that are nothing but weights.

Nothing is fetched, no code of the folder's is run, and transformers itself reads no file: the configuration is a JSON
document and the weights are read by weight_files.py. Worker only, but for `folder_files`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest
from ..foreign_errors import first_line
from .model_notes import add_note
from .torchvision_ops import mend_torchvision
from .weight_files import read_given, shards_of

if TYPE_CHECKING:
    import torch

CONFIG = "config.json"
_PICTURES = "preprocessor_config.json"  # says how large pictures are, where the configuration does not
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_CONFIG_BYTES = 16 << 20
_NOT_TAKEN = (
    "auto_map",
    "attn_implementation",
    "_attn_implementation",
    "_attn_implementation_internal",
    "custom_pipelines",
)
_ATTENTION = ("eager", "sdpa")


def folder_files(folder: Path) -> list[Path]:
    """The files that the model in `folder` is made of; the first is its configuration, the second its weights.

    Raises BadRequest where the folder holds no model of transformers.
    """
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
    weights = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if weights is None:
        raise BadRequest(
            f"{folder} holds no weights: there is no {_WEIGHTS[0]}", fix="save them: model.save_pretrained(FOLDER)"
        )
    shards = shards_of(weights) if weights.suffix == ".json" else []
    more = [folder / _PICTURES] if (folder / _PICTURES).is_file() else []
    return [folder / CONFIG, weights, *shards, *more]


def folder_factory(name: str) -> Callable[..., torch.nn.Module]:
    """What makes the model in the folder `name`. It takes what the configuration holds, dtype (float32 unless set) and
    attn_implementation (eager unless set).

    Raises BadRequest where there is no such model, or it would need code of its own.
    """
    folder = Path(name)
    config_file, weights, *_ = folder_files(folder)
    document = _document(config_file)

    def make(**settings: Any) -> torch.nn.Module:
        return _made(folder, document, weights, settings)

    return make


def _document(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _CONFIG_BYTES:
            raise ValueError(f"it is larger than {_CONFIG_BYTES >> 20} MiB")
        found = json.loads(path.read_bytes(), object_hook=_number)
        if not isinstance(found, dict):
            raise TypeError(f"it holds a {type(found).__name__}")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise BadRequest(f"{path} is no configuration: {error}", fix="copy the folder again") from error
    if found.get("quantization_config"):
        method = found["quantization_config"].get("quant_method", "an unnamed method")
        raise BadRequest(
            f"{path.parent} holds weights quantised by {method}", fix="convert the model as it was before that"
        )
    return found


def _number(value: dict[str, Any]) -> Any:
    """A dict of the document, or the number that transformers writes so where JSON has none: {"__float__": "Infinity"}
    (PreTrainedConfig._encode_special_floats), as in every configuration of Mamba2."""
    tag = value.get("__float__") if len(value) == 1 else None
    return float(tag) if tag in ("Infinity", "-Infinity", "NaN") else value


def _made(folder: Path, document: Mapping[str, Any], weights: Path, settings: Mapping[str, Any]) -> torch.nn.Module:
    import torch

    more = dict(settings)
    dtype = more.pop("dtype", "float32")
    attention = more.pop("attn_implementation", "eager")
    if attention not in _ATTENTION:
        raise BadRequest(f"attn_implementation is {' or '.join(_ATTENTION)}, got {attention!r}", fix="set one of them")
    if dtype not in ("float32", "float16", "bfloat16", "float64"):
        raise BadRequest(f"dtype {dtype!r} is none of a model's", fix="set float32, float16, bfloat16 or float64")
    kind = _class(folder, document)
    config = _config(kind, document, more)
    state = read_given(weights)
    model, told = _loaded(kind, config, state, folder, dtype=getattr(torch, dtype), attn_implementation=attention)
    _check_whole(told, weights, kind.__name__)
    _note(model, told, state, weights, dtype)
    return model


def _loaded(
    kind: Any, config: Any, state: Mapping[str, torch.Tensor], folder: Path, **more: Any
) -> tuple[torch.nn.Module, Mapping[str, Any]]:
    """The model, and what transformers tells of its weights: it renames those of former versions, and ties some."""
    try:
        model, told = kind.from_pretrained(
            None, config=config, state_dict=dict(state), output_loading_info=True, local_files_only=True,
            ignore_mismatched_sizes=True, use_safetensors=True, trust_remote_code=False, **more,
        )  # fmt: skip
    except (RuntimeError, ValueError, TypeError, KeyError, AttributeError, NotImplementedError, ImportError) as error:
        raise BadRequest(
            f"transformers cannot make the model in {folder}: {_reason(error)}",
            fix="save it again with save_pretrained, or mend config.json",
        ) from error
    return model, told


def _check_whole(told: Mapping[str, Any], weights: Path, kind: str) -> None:
    """Transformers fills in what is missing with random numbers, and warns. Raises BadRequest."""
    if lacking := sorted(told["missing_keys"]):
        more = " and others" if len(lacking) > 3 else ""
        raise BadRequest(
            f"{weights} lacks weights of {kind}: {', '.join(lacking[:3])}{more}",
            fix="save the whole model with save_pretrained, or mend architectures in config.json",
        )
    if told["mismatched_keys"]:
        name, there, wanted = min(told["mismatched_keys"])
        raise BadRequest(
            f"{name} is {list(there)} in {weights}, and {list(wanted)} by the configuration of {kind}",
            fix="mend config.json, or leave out the --set that changed it",
        )
    if extra := sorted(told["unexpected_keys"]):
        print(f"{kind} has no use for {', '.join(extra)}")


def _reason(error: Exception) -> str:
    return first_line(error, 300)


def _class(folder: Path, document: Mapping[str, Any]) -> Any:
    """The class that the configuration names, of transformers itself."""
    mend_torchvision()
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


def _config(kind: Any, document: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    """The configuration with the settings in it, without what would fetch code, and without a cache: what a decoder
    keeps from one word to the next is no output of a model that is asked once."""
    try:
        config = kind.config_class.from_dict(_without_code(document))
    except Exception as error:  # transformers and huggingface_hub check it, each with errors of its own
        raise BadRequest(f"{CONFIG} is no configuration of {kind.__name__}: {_reason(error)}", fix="mend it") from error
    known = list(config.to_dict())
    for name, value in settings.items():
        if not hasattr(config, name):
            near = get_close_matches(name, known, n=3)
            fix = f"did you mean {' or '.join(near)}?" if near else f"{CONFIG} lists what it takes"
            raise BadRequest(f"{kind.__name__} takes no {name!r}", fix=fix)
        setattr(config, name, value)
    for each in (config, *(getattr(config, name, None) for name in ("text_config", "decoder", "encoder"))):
        if hasattr(each, "use_cache"):
            each.use_cache = False
    return config


def _without_code(value: Any) -> Any:
    """The document without the keys that name code, here or on a hub, in it or in a configuration inside of it."""
    if isinstance(value, Mapping):
        return {key: _without_code(each) for key, each in value.items() if key not in _NOT_TAKEN}
    return value


def _note(
    model: torch.nn.Module, told: Mapping[str, Any], state: Mapping[str, torch.Tensor], weights: Path, dtype: str
) -> None:
    """What transformers says of the weights in a table that nobody reads."""
    if extra := sorted(told["unexpected_keys"]):
        more = f" and {len(extra) - 3} more" if len(extra) > 3 else ""
        add_note(model, f"{type(model).__name__} has no use for {', '.join(extra[:3])}{more} in {weights.name}")
    kinds = sorted({str(value.dtype).removeprefix("torch.") for value in state.values() if value.is_floating_point()})
    if kinds and kinds != [dtype]:
        add_note(model, f"the weights in {weights.name} are {' and '.join(kinds)}, and are taken as {dtype}")
