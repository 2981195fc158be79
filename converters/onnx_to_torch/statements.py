"""What `forward` is made of: statements, and functions inside of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


def tupled(codes: Sequence[str]) -> str:
    """A tuple of expressions."""
    return f"({codes[0]},)" if len(codes) == 1 else f"({', '.join(codes)})"


def spaced(lines: Sequence[str]) -> list[str]:
    """Lines of text with one empty line at most between two."""
    return [each for at, each in enumerate(lines) if each or (at and lines[at - 1])]


@dataclass(frozen=True, slots=True)
class Line:
    """A statement of `forward`: its targets, its right side, and the module and source line it stands for."""

    targets: tuple[str, ...]
    code: str
    origin: str

    def __str__(self) -> str:
        return f"{', '.join(self.targets)} = {self.code}"


@dataclass(frozen=True, slots=True)
class Block:
    """A function inside of `forward`: its name, its arguments, its statements and what it returns; `copied`: what it
    has copies of that lies around it."""

    name: str
    arguments: tuple[str, ...]
    lines: tuple[Line | Block, ...]
    results: tuple[str, ...]
    origin: str
    copied: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """All that it reads."""
        return "\n".join([*self.copied, *(line.code for line in self.lines), *self.results])

    @property
    def targets(self) -> tuple[str, ...]:
        """All that is set in it, in functions inside of it too."""
        return tuple(each for line in self.lines for each in (*line.targets, *getattr(line, "arguments", ())))

    def __str__(self) -> str:
        inner = [each for line in self.lines for each in str(line).split("\n")]
        body = [*spaced(inner), f"return {tupled(self.results)}"]
        given = [f"{each}: Tensor" for each in self.arguments]
        given += [f"{each}: Tensor = plain_copy({each})" for each in self.copied]
        head = f"def {self.name}({', '.join(given)}) -> tuple[Tensor, ...]:"
        return "\n".join(["", head, *(f"    {each}" if each else "" for each in body), ""])
