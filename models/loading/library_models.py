"""Models of libraries: torchvision:NAME, timm:NAME, hf:FOLDER. Worker only.

A library's factory is called as a user's own function is, with the settings (build.py). Nothing is downloaded: the
weights of torchvision's and timm's models are random, and such that they tell a wrong copy from a right one.
Constructors leave heads and branches empty, and BatchNorm has seen no data. Then signals fade from layer to layer, the
model answers alike whatever its inputs are, and a wrong copy of it would give the right answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest
from ..signature import TensorSpec
from ..sources import CodeRef
from .factory_arguments import arguments
from .torchvision_ops import register_torchvision_stubs
from .transformers_models import folder_factory, transformers_inputs
from .weight_files import add_note

if TYPE_CHECKING:
    import torch

_FETCHED = ("weights", "weights_backbone", "pretrained", "checkpoint_path", "pretrained_cfg", "pretrained_cfg_overlay")
_FILM = 16  # frames, where the model does not say how many
_FLOW = (128, 128)  # the least that RAFT takes
_ROWS = 2  # of the call that calibrates


def library_factory(ref: CodeRef) -> Callable[..., Any]:
    """Return the factory of the library's model that `ref` names.
    Raises BadRequest where the library has none of that name."""
    factories = {"torchvision": _torchvision_factory, "timm": _timm_factory, "hf": folder_factory}
    return factories[ref.library or ""](ref.name)


def known_inputs(ref: CodeRef, model: torch.nn.Module) -> tuple[TensorSpec, ...] | None:
    """Return the inputs of a library's model, and of any model of transformers' classes.
    Names are forward's own parameters where they tell something. None where nobody but the user knows them."""
    if ref.library == "torchvision":
        return _torchvision_inputs(ref.name)
    if ref.library == "timm":
        return _timm_inputs(model, ref.settings)
    if any(kind.__module__ == "transformers.modeling_utils" for kind in type(model).__mro__):
        return transformers_inputs(model, Path(ref.name if ref.library else ref.root or "."))
    return None


def _torchvision_factory(name: str) -> Callable[..., torch.nn.Module]:
    """Return the factory of the torchvision model of that name.
    Raises BadRequest with the closest names where there is none."""
    register_torchvision_stubs()
    from torchvision.models import get_model_builder, list_models

    source = f"torchvision:{name}"
    if name.lower() not in list_models():
        raise _unknown("torchvision", name, list_models())
    builder = get_model_builder(name)

    def make(**settings: object) -> torch.nn.Module:
        keywords = arguments(builder, _without_fetching(settings, source), source)
        if "weights_backbone" in inspect.signature(builder).parameters:
            keywords["weights_backbone"] = None
        return _make_random(lambda: builder(weights=None, **keywords), lambda _: _inputs(name), settings, source)

    return make


def _timm_factory(name: str) -> Callable[..., torch.nn.Module]:
    """Return the factory of the timm model of that name.
    Raises BadRequest with the closest names where there is none."""
    register_torchvision_stubs()
    import timm

    source = f"timm:{name}"
    if not timm.is_model(name):
        raise _unknown("timm", name, timm.list_models())

    def make(**settings: object) -> torch.nn.Module:
        keywords = _without_fetching(settings, source)
        return _make_random(
            lambda: timm.create_model(name, pretrained=False, **keywords),
            lambda model: _timm_inputs(model, keywords),
            settings,
            source,
        )

    return make


def _torchvision_inputs(name: str) -> tuple[TensorSpec, ...]:
    """Return the inputs of a torchvision model, by the transforms of its published weights.
    Raises BadRequest for a detector: random pictures show it nothing, and a comparison of no boxes is no evidence."""
    if _family(name) == "detection":
        raise BadRequest(
            f"torchvision:{name} gives as many boxes as a picture shows, in a list for each picture",
            fix="write a FILE.py with a module that calls its backbone and head and returns all boxes and scores, and "
            "choose among them behind the model",
        )
    return _inputs(name)


def _family(name: str) -> str:
    """Return a model's part of torchvision.models: resnet, segmentation, detection, video, optical_flow."""
    register_torchvision_stubs()
    from torchvision.models import get_model_builder

    module: str = get_model_builder(name).__module__
    return module.removeprefix("torchvision.models.").partition(".")[0]


def _inputs(name: str) -> tuple[TensorSpec, ...]:
    """Return the inputs as _torchvision_inputs does, but none for a detector."""
    family = _family(name)
    from torchvision.models import get_model_weights

    weights = next(iter(get_model_weights(name)))
    transforms: Mapping[str, Any] = getattr(weights.transforms, "keywords", {})
    if family == "optical_flow":
        return tuple(_image(name, "batch", 3, *_FLOW) for name in ("first", "second"))
    if family == "detection":
        return ()
    size = _two(transforms.get("crop_size") or transforms.get("resize_size") or 224)
    if family == "video":
        frames = weights.meta.get("min_temporal_size", _FILM)
        return (_image("video", "batch", 3, frames, *size),)
    return (_image("image", "batch", 3, *size),)


def _timm_inputs(model: torch.nn.Module, settings: Mapping[str, Any]) -> tuple[TensorSpec, ...]:
    """Return the inputs of a timm model, by its default configuration and the settings."""
    known: Mapping[str, Any] = getattr(model, "pretrained_cfg", None) or {}
    channels, *size = known.get("input_size") or (3, 224, 224)
    if settings.get("img_size"):
        size = _two(settings["img_size"])
    return (_image("image", "batch", settings.get("in_chans", channels), *size),)


def _image(name: str, *shape: int | str) -> TensorSpec:
    return TensorSpec(name, "float32", shape)


def _two(size: int | Sequence[int]) -> list[int]:
    """Return height and width of one number for both, a list of one, or a list of two."""
    sizes = [size] if isinstance(size, int) else list(size)
    return (sizes * 2)[:2]


def _without_fetching(settings: Mapping[str, object], source: str) -> dict[str, Any]:
    """Return the settings without those that could fetch weights. Raises BadRequest where one of them would."""
    for name in _FETCHED:
        if settings.get(name):
            raise BadRequest(
                f"{source} would fetch its weights for {name}={settings[name]!r}, and nothing is downloaded",
                fix="save them to a file, and name it with --weights",
            )
    return {name: value for name, value in settings.items() if name not in _FETCHED}


def _make_random(
    make: Callable[[], torch.nn.Module],
    inputs_of: Callable[[torch.nn.Module], tuple[TensorSpec, ...]],
    settings: Mapping[str, object],
    source: str,
) -> torch.nn.Module:
    """Make a module with random weights that tell a wrong copy from a right one; `inputs_of` gives its inputs."""
    try:
        model = make()
    except Exception as error:
        if not settings:
            raise
        words = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadRequest(
            f"{source} cannot be made with {words}: {reason}", fix="mend or leave out that --set"
        ) from error
    _fill_constants(model)
    _calibrate(model, inputs_of(model))
    add_note(model, f"the weights of {source} are random: --weights names trained ones")
    return model


def _fill_constants(model: torch.nn.Module) -> None:
    """Fill every parameter that is one number all over with random numbers of torch's generator.
    Constructors begin with empty heads, layer scales and gates of 0 or 1e-6, and norms of weight 1."""
    import torch

    with torch.no_grad():
        for value in model.parameters():
            if not value.is_floating_point() or value.numel() < 2 or value.min() < value.max():
                continue
            level = float(value.flatten()[0])
            if value.squeeze().ndim > 1:
                value.add_(torch.randn_like(value) * value[0].numel() ** -0.5)
            elif level == 0:
                value.normal_(std=0.05)
            else:
                value.uniform_(0.7, 1.3).mul_(max(abs(level), 0.3))


def _calibrate(model: torch.nn.Module, specs: Sequence[TensorSpec]) -> None:
    """Give every BatchNorm the statistics of its inputs in one call.
    The call has random inputs like those that the model is verified on. Nothing is done where `specs` is empty: the
    inputs are not known."""
    import torch
    from torch.nn.modules.batchnorm import _BatchNorm

    norms = [part for part in model.eval().modules() if isinstance(part, _BatchNorm) and part.track_running_stats]
    if not norms or not specs:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None  # the plain average
        norm.reset_running_stats()
        norm.train()
    shapes = [spec.sized(dict.fromkeys(spec.dynamic_axes.values(), _ROWS)) for spec in specs]
    with torch.no_grad():
        model(*(torch.randn(shape) + 0.3 for shape in shapes))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.eval()


def _unknown(library: str, name: str, known: Sequence[str]) -> BadRequest:
    near = get_close_matches(name.lower(), known, n=3)
    some = f"{library} has {', '.join(known[:5])} and {len(known)} in all"
    return BadRequest(f"{library} has no model {name!r}", fix=f"did you mean {' or '.join(near)}?" if near else some)
