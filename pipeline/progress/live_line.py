"""The words of the live line: stage, model, steps and seconds, as much of it as a terminal has room for.

Nothing in it is ever cut: what has no room is left out, whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .terminal_text import width

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_FRAMES = "|/-\\"
_BETWEEN = " > "  # the steps of a route, as `convert` prints it
_STAGES_OF_ROUTES = {"convert": "", "verify": "verify "}  # plan/run_plan.py: action_name
_PLAIN_WORDS = {"describe": "load the code", "given": "read the file"}


@dataclass(frozen=True)
class MovingStage:
    """A stage under way, as words."""

    head: str  # the name of one of several models, in its column
    name: str
    model: str
    count: str  # "2/5"
    steps: tuple[str, ...]  # that run now
    seconds: float
    more_models: int = 0  # further models that are under way


def live_text(stage: MovingStage, columns: int, frame: int, encoding: str = "utf-8") -> str:
    """Return the longest wording that fits into so many columns; "" where none does."""
    frames = _FRAMES if encoding.lower().replace("-", "") == "utf8" else _PLAIN_FRAMES
    spinner = frames[frame % len(frames)]
    seconds = f"{stage.seconds:.0f} s"
    more = f"+{stage.more_models} model{'s' * (stage.more_models > 1)}" if stage.more_models else ""
    head = f"{stage.head}{stage.name:<10}".rstrip()
    for model in dict.fromkeys((stage.model, "")):
        for steps in _wordings(stage.steps):
            text = "  ".join(filter(None, (f"{spinner} {head}", model, stage.count, steps, seconds, more)))
            if width(text) <= columns:
                return text
    return next((text for text in (f"{stage.name}  {seconds}", seconds) if width(text) <= columns), "")


def still_text(stage: MovingStage) -> str:
    """Return the line of a long stage where there is no terminal."""
    at = f"at {', '.join(stage.steps)} " if stage.steps else ""
    return f"{stage.head}{stage.name:<10} still {at}after {stage.seconds:.0f} s"


def name_of_step(action: str) -> str:
    """Return what a step is called: the route of a conversion or a check, else the name of its action."""
    kind, _, rest = action.partition(".")
    route = rest.partition(".")[2]
    if kind in _STAGES_OF_ROUTES and route:
        return _STAGES_OF_ROUTES[kind] + route.replace("+", _BETWEEN)
    return _PLAIN_WORDS.get(kind, action)


def name_of_model(text: str) -> str:
    """Return a model's name without its place: digits-cnn of zoo:digits-cnn, net.py:Net of /home/me/net.py:Net."""
    return re.sub(r"^[a-z]+:(?=[^/\\]+$)", "", re.sub(r"^.*[/\\](?=[^/\\])", "", text))


def _wordings(steps: tuple[str, ...]) -> Iterator[str]:
    """Yield the steps in ever fewer words: all, the oldest, its last part, none."""
    if steps:
        more = f" +{len(steps) - 1}" if len(steps) > 1 else ""
        yield ", ".join(steps)
        yield steps[0] + more
        yield steps[0].rpartition(_BETWEEN)[2] + more
    yield ""
