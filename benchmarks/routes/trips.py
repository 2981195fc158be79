"""The round trips of benchmarks/round_trips.py, as a part of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ARRIVED = "arrived"
_HEAD = """## Round trips

The [recipes](../recipes.md), trained, from leg to leg: each leg is a `transload convert` of the bare file that the leg
before has left. The last copy is held against the **first** model, on the recipe's test set and at the batches 1, 3
and 5, and its names, their order, dtypes and axes against the recipe's; a cell has the least decibels. The Keras model
is the recipe's net as one writes it in Keras, with the weights that PyTorch has trained (it answers as the recipe to
{keras}); the TFLite file is the one that is made of the recipe. `python benchmarks/round_trips.py` measures them anew;
what it found stands in `benchmarks/results/round_trips.json`.
"""


def section(path: Path) -> str:
    """Of the results in a file; nothing where there is none."""
    if not path.exists():
        return ""
    document = json.loads(path.read_text())
    trips: Mapping[str, Mapping[str, Any]] = document["trips"]
    recipes = list(dict.fromkeys(recipe for found in trips.values() for recipe in found))
    lines = [_HEAD.format(keras=_decibels(document["keras_sqnr_db"].values()))]
    lines += [f"| recipe | {' | '.join(trips)} |", f"|---{'|---' * len(trips)}|"]
    for recipe in recipes:
        lines.append(f"| {recipe} | {' | '.join(_cell(found.get(recipe)) for found in trips.values())} |")
    lost = [
        f"- {recipe}, {trip}: {' '.join(each['reason'].replace('|', '/').split())[:300]}"
        for trip, found in trips.items()
        for recipe, each in found.items()
        if each["status"] != ARRIVED
    ]
    return "\n".join(["", *lines, *(["", *lost] if lost else [])]) + "\n"


def _cell(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    return _decibels(found["sqnr_db"].values()) if found["status"] == ARRIVED else f"**{found['status']}**"


def _decibels(found: Any) -> str:
    least = min((each for each in found if each is not None), default=None)
    return "the last bit" if least is None else f"{least:.0f} dB"
