"""One contract, every runtime of the table."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transload.serving.runtimes.runtime_table import RUNTIMES

_spec = importlib.util.spec_from_file_location("contract", Path(__file__).with_name("contract.py"))
assert _spec is not None
assert _spec.loader is not None
contract = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(contract)

SOURCES = [("torch", "source"), ("torch-compile", "source")]
CASES = [
    # Those that compile take half a minute each.
    pytest.param((name, form), marks=[pytest.mark.slow] if RUNTIMES[name].compiles else [], id=f"{name}-{form}")
    for name, form in [(name, str(form)) for name, runtime in RUNTIMES.items() for form in runtime.takes] + SOURCES
]


@pytest.fixture(scope="module")
def address(artifact: Callable[[str], Path], shared_host: Callable[[str], Any]) -> Callable[[str, str], str]:
    """`address(form, service)`, the listener of a server of the contract's model, which all protocols of a form ask."""
    open_forms: set[str] = set()

    def find(form: str, service: str) -> str:
        server = shared_host(f"server of {form}")
        if form not in open_forms:
            options = {"folder": str(artifact(form)), "name": "contract", "device": "cpu", "threads": 1}
            server.hold("transload.serving.server.embedded:open_server", options)
            open_forms.add(form)
        return str(server.call("addresses", ())[service])

    return find


@pytest.fixture(scope="module", params=CASES)
def held(
    request: pytest.FixtureRequest,
    available: Callable[[str], None],
    artifact: Callable[[str], Path],
    shared_host: Callable[[str], Any],
    address: Callable[[str, str], str],
) -> Any:
    """A process that holds a session of one runtime over the contract's model."""
    name, form = request.param
    available(name)
    runtime, folder = RUNTIMES[name], artifact(form)
    if not runtime.served:
        process = shared_host(runtime.requires[0])
        process.hold(runtime.entry, (folder, "cpu", 1))
        return process
    process = shared_host("client")
    process.hold(runtime.entry, (address(form, runtime.service), "contract", contract.signature_of(folder)))
    return process


@pytest.mark.parametrize("promise", contract.PROMISES)
def test_every_session_keeps(held: Any, promise: str, request: pytest.FixtureRequest) -> None:
    name, _ = request.node.callspec.params["held"]
    held.keep(promise, contract.INTEGERS if RUNTIMES[name].int64 else contract.INT32)


def test_a_session_can_be_closed_twice_and_then_answers_no_more(held: Any) -> None:
    held.call("close", ())
    held.call("close", ())
    with pytest.raises(Exception, match=r"SessionLost: the .* session is closed"):
        held.call("run", (contract.feeds_of(1),))
