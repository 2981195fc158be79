"""Load a transformers model from a folder of this machine: its configuration and its weights.

Nothing is fetched, no code of the folder is run, and transformers itself reads no file: the configuration is a JSON
document, and weight_files.py reads the weights. Worker only, but for `folder_files`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ..errors import BadRequest
from ..foreign_errors import first_line
from .state_dicts import add_note, few
from .torchvision_ops import mend_torchvision
from .weight_files import read_weight_file, shards_of

if TYPE_CHECKING:
    import torch

CONFIG = "config.json"
_PICTURES = "preprocessor_config.json"  # gives the size of pictures, where the configuration does not
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_CONFIG_BYTES = 16 << 20
_CODE_KEYS = (
    "auto_map", "attn_implementation", "_attn_implementation", "_attn_implementation_internal", "custom_pipelines",
)  # fmt: skip
_ATTENTION = ("eager", "sdpa")


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
    weights = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if weights is None:
        raise BadRequest(
            f"{folder} holds no weights: there is no {_WEIGHTS[0]}", fix="save them: model.save_pretrained(FOLDER)"
        )
    shards = shards_of(weights) if weights.suffix == ".json" else []
    more = [folder / _PICTURES] if (folder / _PICTURES).is_file() else []
    return [folder / CONFIG, weights, *shards, *more]


def folder_factory(name: str) -> Callable[..., torch.nn.Module]:
    """Return the factory of the model in the folder `name`.

    It takes the fields of the configuration, dtype (float32 unless set) and attn_implementation (eager unless set).

    Raises BadRequest where there is no such model, or it would need code of its own.
    """
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
    if document.get("quantization_config"):
        method = document["quantization_config"].get("quant_method", "an unnamed method")
        raise BadRequest(
            f"{path.parent} holds weights quantised by {method}", fix="convert the model as it was before that"
        )
    return document


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
