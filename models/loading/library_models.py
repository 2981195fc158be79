"""Models of libraries, by the words that name them: torchvision:NAME, timm:NAME, hf:FOLDER. Worker only.

Each library's factory is what a user's own function is: models/loading/module_from_ref.py calls it with the settings.
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
    """What makes the model that `ref` names, of the library that it names.

    Raises BadRequest where the library has none of that name.
    """
    from . import transformers_folder, vision_models

    if ref.library == "torchvision":
        return vision_models.torchvision_factory(ref.name)
    if ref.library == "timm":
        return vision_models.timm_factory(ref.name)
    return transformers_folder.folder_factory(ref.name)


def known_inputs(ref: CodeRef, model: torch.nn.Module) -> tuple[TensorSpec, ...] | None:
    """What a library's model takes: names of forward's own parameters where they tell something, dtypes and shapes.
    None where nobody but the user knows it."""
    from . import transformers_inputs, vision_models

    if ref.library == "torchvision":
        return vision_models.torchvision_inputs(ref.name)
    if ref.library == "timm":
        return vision_models.timm_inputs(model, ref.settings)
    if ref.library == "hf":
        return transformers_inputs.transformers_inputs(model, Path(ref.name))
    return None
