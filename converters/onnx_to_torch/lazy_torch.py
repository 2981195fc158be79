"""PyTorch, imported at its first use: the helpers can be read, and their text pasted, without it."""

from __future__ import annotations

from typing import Any

from ..lazy_import import LazyLibrary

torch: Any = LazyLibrary("torch")
F: Any = LazyLibrary("torch.nn.functional")
