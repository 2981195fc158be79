"""Make torchvision importable beside a torch that its wheel was not built for. Worker only.

The wheel that a package index serves is built against CUDA's torch. Beside the CPU one its C++ operators do not load,
and its import fails ("operator torchvision::nms does not exist"), with timm's and part of that of transformers. The
operators that it looks for are then declared here, in Python, just before. A torchvision that loads is left alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_LIBRARIES: list[torch.library.Library] = []  # declarations last as long as these objects


def register_torchvision_stubs() -> None:
    """Make `import torchvision` work from now on, in any code. Costs nothing until then, and may be repeated."""
    if not any(isinstance(finder, _Before) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Before())


class _Before:
    """A finder before those of Python: it finds nothing itself, and repairs torchvision as it is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "torchvision":
            _declare()
        elif name == "torchvision.ops.boxes" and _LIBRARIES:
            return _with_nms(PathFinder.find_spec(name, path, target))
        return None


def _declare() -> None:
    """Declare the operators that torchvision's import looks for, unless its own can be had."""
    import torch

    spec = PathFinder.find_spec("torchvision")
    if _LIBRARIES or spec is None or _loads(spec):
        return
    library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for name in ("nms", "qnms"):  # qnms, of quantised boxes, is asked for and never called
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.impl("nms", nms, "CPU")
    _LIBRARIES.append(library)


def _loads(spec: ModuleSpec) -> bool:
    """Return whether torchvision's own operators load, which also declares them; there is no other way to ask."""
    from torch import ops

    load: Callable[[Path], None] = ops.load_library
    for folder in spec.submodule_search_locations or ():
        for file in Path(folder).glob("_C*.so"):
            try:
                load(file)
            except (OSError, RuntimeError):
                return False
            return True
    return False


def _with_nms(spec: ModuleSpec | None) -> ModuleSpec | None:
    """Patch torchvision.ops.boxes, which checks for the C++ operators before it calls nms: ours is declared."""
    if spec is not None and spec.loader is not None:
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            module._assert_has_ops = lambda: None  # type: ignore[attr-defined]

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
    return spec


def nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    """Return the rows of `boxes` (N, 4), as x1 y1 x2 y2, that are kept, best score (N) first: int64 (K).
    A box is removed where its intersection with a better one, over their union, is above the threshold, as in
    torchvision.ops.nms."""
    import torch

    waiting = scores.sort(descending=True, stable=True).indices
    kept = []
    while len(waiting):
        kept.append(waiting[0])
        waiting = waiting[1:][~_overlap(boxes[waiting[0]], boxes[waiting[1:]], threshold)]
    return torch.stack(kept) if kept else torch.empty(0, dtype=torch.int64)


def _overlap(box: torch.Tensor, candidates: torch.Tensor, threshold: float) -> torch.Tensor:
    import torch

    low, high = torch.maximum(box[:2], candidates[:, :2]), torch.minimum(box[2:], candidates[:, 2:])
    shared = (high - low).clamp(min=0).prod(1)
    areas = (candidates[:, 2:] - candidates[:, :2]).prod(1)
    return shared / ((box[2:] - box[:2]).prod() + areas - shared) > threshold
