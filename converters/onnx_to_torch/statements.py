"""What `forward` is made of: statements, and functions inside of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .values import as_tuple


def spaced(lines: Sequence[str]) -> list[str]:
    """Return lines of text with one empty line at most between two."""
    return [line for at, line in enumerate(lines) if line or (at and lines[at - 1])]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of `forward`: its targets, its right side, and the module and source line it stands for."""

    targets: tuple[str, ...]
    code: str
    origin: str

    def __str__(self) -> str:
        return f"{', '.join(self.targets)} = {self.code}"


@dataclass(frozen=True, slots=True)
class FunctionStatement:
    """A function inside of `forward`; `copied`: the names around it of which it has copies."""

    name: str
    arguments: tuple[str, ...]
    lines: tuple[Statement | FunctionStatement, ...]
    results: tuple[str, ...]
    origin: str
    copied: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """All the code that it reads."""
        return "\n".join([*self.copied, *(line.code for line in self.lines), *self.results])

    @property
    def targets(self) -> tuple[str, ...]:
        """All names that are set in it, also in functions inside of it."""
        return tuple(name for line in self.lines for name in (*line.targets, *getattr(line, "arguments", ())))

    def __str__(self) -> str:
        inner = [text for line in self.lines for text in str(line).split("\n")]
        body = [*spaced(inner), f"return {as_tuple(self.results)}"]
        parameters = [f"{name}: Tensor" for name in self.arguments]
        parameters += [f"{name}: Tensor = plain_copy({name})" for name in self.copied]
        head = f"def {self.name}({', '.join(parameters)}) -> tuple[Tensor, ...]:"
        return "\n".join(["", head, *(f"    {text}" if text else "" for text in body), ""])
