"""TensorFlow, imported when it is first used: the table of operators can be read without it."""

from __future__ import annotations

from typing import Any

from ..lazy_import import LazyLibrary

tf: Any = LazyLibrary("tensorflow")
