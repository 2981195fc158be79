"""Models of libraries: torchvision:NAME, timm:NAME, hf:FOLDER. Worker only.

A library's factory is called as a user's own function is, with the settings (module_from_ref.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..signature import TensorSpec
from ..sources import CodeRef

if TYPE_CHECKING:
    import torch


def library_factory(ref: CodeRef) -> Callable[..., Any]:
    """Return the factory of the library's model that `ref` names.
    Raises BadRequest where the library has none of that name."""
    from . import transformers_folder, vision_models

    if ref.library == "torchvision":
        return vision_models.torchvision_factory(ref.name)
    if ref.library == "timm":
        return vision_models.timm_factory(ref.name)
    return transformers_folder.folder_factory(ref.name)


def known_inputs(ref: CodeRef, model: torch.nn.Module) -> tuple[TensorSpec, ...] | None:
    """Return the inputs of a library's model: names of forward's own parameters where they tell something.
    None where nobody but the user knows them."""
    from . import transformers_inputs, vision_models

    if ref.library == "torchvision":
        return vision_models.torchvision_inputs(ref.name)
    if ref.library == "timm":
        return vision_models.timm_inputs(model, ref.settings)
    if ref.library == "hf":
        return transformers_inputs.transformers_inputs(model, Path(ref.name))
    return None
