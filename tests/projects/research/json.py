"""Annotations as the lab's tool writes them. The name is unlucky, and the tool is older than this repository."""


def boxes(text: str) -> list[tuple[int, ...]]:
    """One box a line: left top right bottom."""
    return [tuple(int(word) for word in line.split()) for line in text.splitlines()]
