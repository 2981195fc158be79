"""TensorFlow, imported when it is first used: a table of operators can be read without it."""

from __future__ import annotations

from typing import Any

from ..lazy import Lazy

tf: Any = Lazy("tensorflow")
