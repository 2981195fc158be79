"""Which operator is converted by which function, for which wordings of the specification and which dtypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, TypeVar

Carrier = TypeVar("Carrier")
Function = TypeVar("Function", bound=Callable[..., Any])

MICROSOFT = "com.microsoft"  # the domain of what ONNX Runtime's optimiser and quantiser write

# The newest wording that the operators here were written against. A newer one is refused until somebody has read it.
NEWEST_READ = 25


@dataclass(frozen=True, slots=True)
class Entry(Generic[Carrier]):
    """One operator's function. `dtypes`: what it takes, by the specification's name of the type variable."""

    function: Carrier
    since: int
    until: int
    dtypes: Mapping[str, frozenset[str]]
    folds: bool = True  # whether the same inputs always make the same answer


class Registry(Generic[Carrier]):
    """The functions of one back-end. They lie in modules of `package`, one for each family of operators."""

    def __init__(self, package: str, families: Sequence[str]) -> None:
        self._modules = [f"{package}.{family}" for family in families]
        self._entries: dict[tuple[str, str], list[Entry[Carrier]]] = {}

    def register(
        self,
        *op_types: str,
        since: int = 1,
        until: int = NEWEST_READ,
        domain: str = "",
        folds: bool = True,
        **dtypes: frozenset[str],
    ) -> Callable[[Function], Function]:
        """Register a function for the wordings `since` .. `until` (opset versions) of one operator, or of several."""

        def registered(function: Any) -> Any:
            for op_type in op_types:
                entries = self._entries.setdefault((domain, op_type), [])
                if any(entry.since <= until and since <= entry.until for entry in entries):
                    raise ValueError(f"two functions of {domain}.{op_type} for the versions {since}..{until}")
                entries.append(Entry(function, since, until, dtypes, folds))
            return function

        return registered

    def entries(self) -> dict[tuple[str, str], list[Entry[Carrier]]]:
        """Return every operator's functions, by domain and operator; imports the families, but no framework."""
        for module in self._modules:
            import_module(module)
        return self._entries

    def find(self, domain: str, op_type: str, version: int) -> Entry[Carrier] | None:
        """Return the function for this wording of an operator, or None."""
        known = self.entries().get((domain, op_type), ())
        return next((entry for entry in known if entry.since <= version <= entry.until), None)
