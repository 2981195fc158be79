"""What stands in a pickle for classes and for their instances. A name out of a file is never imported."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

_RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg"}  # Python 2's names
_SCALARS = (str, int, float, complex, bytes, type(None))  # bool is an int
_MOST_IN_KEY = 16


class PickleRefused(ValueError):
    """A pickle that is broken, or that holds what no checkpoint needs. Its message quotes nothing of the file."""


@dataclass(frozen=True, slots=True)
class StubClass:
    """The name of a class, a function or a constant in a pickle."""

    module: str
    name: str  # may be dotted

    @property
    def text(self) -> str:
        """The dotted name, as it is called in this Python and this numpy."""
        module = _RENAMED.get(self.module, self.module)
        if module.startswith("numpy.core."):
            module = module.replace("numpy.core.", "numpy._core.", 1)
        return f"{module}.{self.name}"


@dataclass(slots=True, eq=False)
class Stub:
    """An instance of a class that is not known: what the pickle would have made it from."""

    cls: StubClass
    args: tuple[object, ...] = ()
    keywords: Mapping[str, object] = field(default_factory=dict)
    state: object = None
    entries: dict[Hashable, object] = field(default_factory=dict)  # of a class derived from dict
    elements: list[object] = field(default_factory=list)  # of one derived from list or set

    @property
    def attributes(self) -> dict[str, object]:
        """The attributes by name, of `__dict__` and of slots."""
        parts = self.state if isinstance(self.state, tuple) and len(self.state) == 2 else (self.state,)
        named: dict[str, object] = {}
        for part in parts:
            if isinstance(part, dict):
                named.update((name, value) for name, value in part.items() if isinstance(name, str))
        return named


def check_key(value: object) -> Hashable:
    """Return a dict's key or a set's element. Hashes of nested tuples could take for ever.
    Raises PickleRefused where it is no name, number or class, and no short tuple of them."""
    parts = value if isinstance(value, tuple) and len(value) <= _MOST_IN_KEY else (value,)
    if not all(isinstance(part, (*_SCALARS, Stub, StubClass)) for part in parts):
        raise PickleRefused("its pickle has a key that is no name and no number")
    return value
