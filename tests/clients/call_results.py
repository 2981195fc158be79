"""What the scripts of the clients print: they run in processes of their own, beside each other in this folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any


def print_results(calls: Mapping[str, Callable[[], Any]]) -> None:
    """Make all calls; print the result of each by its name as one line of JSON, an error as its name and text."""
    results = {}
    for name, call in calls.items():
        try:
            results[name] = call()
        except Exception as error:  # noqa: BLE001  (it is the result)
            results[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(results))
