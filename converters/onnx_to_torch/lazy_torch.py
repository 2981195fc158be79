"""PyTorch, imported when it is first used: the helpers can be read, and their text pasted, without it."""

from __future__ import annotations

from typing import Any

from ..lazy_import import Lazy

torch: Any = Lazy("torch")
F: Any = Lazy("torch.nn.functional")
