"""A process that holds sessions and servers for the tests: `python session_host.py FD`, pickles over a socket.

What a framework prints goes to stderr; a reply is ("ok", value) or ("error", type, text).
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import resource
import socket
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

HELD: dict[str, Any] = {}


def contract() -> Any:
    spec = importlib.util.spec_from_file_location("contract", Path(__file__).with_name("contract.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hold(entry: str, args: tuple[Any, ...] | dict[str, Any]) -> None:
    """Call `module:function` and keep what it gives."""
    module, _, name = entry.partition(":")
    function = getattr(import_module(module), name)
    HELD["held"] = function(**args) if isinstance(args, dict) else function(*args)


def call(name: str, args: tuple[Any, ...]) -> Any:
    return getattr(HELD["held"], name)(*args)


def look(name: str) -> Any:
    return getattr(HELD["held"], name)


def keep(promise: str, integers: int) -> None:
    """Hold the session against one promise of the contract, with integers up to these."""
    module = contract()
    module.INTEGERS = integers
    module.PROMISES[promise](HELD["held"])


def modules() -> list[str]:
    return sorted(sys.modules)


def rss_bytes() -> int:
    """The most that this process has had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    link = socket.socket(fileno=int(sys.argv[1]))
    with link.makefile("rwb") as stream:
        while True:
            try:
                act, args = pickle.load(stream)  # noqa: S301  (from the test that started us)
            except EOFError:
                os._exit(0)  # TensorFlow takes a second to end
            try:
                reply: tuple[Any, ...] = ("ok", globals()[act](*args))
            except BaseException as error:  # noqa: BLE001  (the test decides)
                traceback.print_exc()
                reply = ("error", getattr(error, "kind", type(error).__name__), str(error))  # as a user is told
            pickle.dump(reply, stream)
            stream.flush()


if __name__ == "__main__":
    main()
