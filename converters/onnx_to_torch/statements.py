"""What `forward` is made of: statements, and functions inside of it."""

from __future__ import annotations

from dataclasses import dataclass


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
    """A function inside of `forward`: its name, its arguments, its statements and what it returns."""

    name: str
    arguments: tuple[str, ...]
    lines: tuple[Line | Block, ...]
    results: tuple[str, ...]
    origin: str

    @property
    def code(self) -> str:
        """All that it reads."""
        return "\n".join([*(line.code for line in self.lines), *self.results])

    def __str__(self) -> str:
        body = [
            *(each for line in self.lines for each in str(line).splitlines()),
            f"return ({', '.join(self.results)},)",
        ]
        head = f"def {self.name}({', '.join(self.arguments)}) -> tuple[Tensor, ...]:"
        return "\n".join(["", head, *(f"    {each}" for each in body), ""])
