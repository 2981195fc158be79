"""torch still writes each message that transload reads: every one is produced for real."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from transload.converters.patches import torch_messages

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
X = torch.randn(3, 4)
DYNAMIC = torch.export.Dim.DYNAMIC


class OfFunction(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def message(call: Callable[[], object]) -> str:
    """What a call raises, with what that was raised from."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:  # noqa: BLE001  (its message is what is looked at)
            parts: list[str] = []
            cause: BaseException | None = error
            while cause is not None:
                parts.append(str(cause))
                cause = cause.__cause__
            return "\n".join(parts)
    pytest.fail("nothing was raised")


def capture(function: Callable[..., Any]) -> torch.export.ExportedProgram:
    return torch.export.export(OfFunction(function), (X,), dynamic_shapes=({0: DYNAMIC},), strict=False)


def logged(function: Callable[..., Any]) -> str:
    """What the logger of shapes says while a function is captured."""
    records: list[str] = []
    log = logging.getLogger(torch_messages.SHAPE_LOGGER)
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    former = log.handlers, log.level, log.propagate
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)
    try:
        capture(function)
    finally:
        log.handlers, log.propagate = former[0], former[2]
        log.setLevel(former[1])
    return "\n".join(records)


def trace_warnings(function: Callable[..., Any]) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.jit.trace(function, (X,))
    return "\n".join(str(each.message) for each in caught)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2


class Slope(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 2).requires_grad_(False)

    def forward(self, x: Tensor) -> Any:
        return torch.vmap(torch.func.jacrev(self.net))(x)


class Stateless(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        return torch.func.functional_call(self.inner, dict(self.inner.named_parameters()), (x,))


def Doubled_forward(x: Tensor) -> Tensor:  # noqa: N802  (as compiled_functions names it)
    return torch.not_there(x)  # type: ignore[attr-defined]


class CallsForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Doubled_forward(x)


class NoneFirst(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        state = None
        for at in range(x.shape[0]):
            state = x[at]
        return x if state is None else state


class RangeValue(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for at in reversed(range(x.shape[0])):
            x = x + at
        return x


class ReversedTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = [x, x]
        for row in reversed(rows):
            x = x + row
        return x


def applied(function: Callable, x: Tensor) -> Tensor:  # type: ignore[type-arg]
    return function(x)


class TakesCallable(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return applied(torch.relu, x)


class HasLambda(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        double = lambda y: y * 2  # noqa: E731  (what is not compiled)
        return double(x)


def scaled(x: Tensor, factor: int) -> Tensor:
    return x * factor


class WrongArgument(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return scaled(x, "1")  # type: ignore[arg-type]


@cache
def scripted(model: type[nn.Module]) -> str:
    return message(lambda: torch.jit.script(model()))


def saved_call() -> str:
    trace = torch.jit.trace(OfFunction(Doubled.apply), (X,))
    return message(lambda: torch.jit.save(trace, io.BytesIO()))


def dynamo(function: Callable[..., Any]) -> str:
    program = torch.export.export(OfFunction(function), (X,), strict=False)
    return message(lambda: torch.onnx.export(program, dynamo=True, verbose=False))


def node_line() -> str:
    trace: Any = torch.jit.trace(OfFunction(lambda x: x + 1), (X,))
    return "\n".join(str(node.sourceRange()) for node in trace.inlined_graph.nodes())


PRODUCED: dict[str, Callable[[], str]] = {
    "SPECIALIZED_AXIS": lambda: message(lambda: capture(lambda x: x.reshape(3, 4) + 1)),
    "SPECIALIZED": lambda: message(lambda: capture(lambda x: x.reshape(3, 4) + 1)),
    "AXIS_SOURCE": lambda: message(lambda: capture(lambda x: x.reshape(3, 4) + 1)),
    "CREATED_SYMBOL": lambda: logged(lambda x: x + 1),
    "ADDED_GUARD": lambda: logged(lambda x: x + 1 if x.shape[0] > 2 else x),
    "NO_DERIVATIVE": lambda: message(lambda: torch.export.export(Slope(), (X,), strict=False)),
    "STATELESS": lambda: message(lambda: torch.jit.trace(Stateless(), (X,))),
    "TRACED_BRANCH": lambda: trace_warnings(lambda x: x + 1 if x.sum() > 0 else x),
    "TRACED_LINE": node_line,
    "PYTHON_CALL": saved_call,
    "SCRIPT_LINE": lambda: scripted(HasLambda),
    "SCHEMA": lambda: scripted(WrongArgument),
    "MISMATCH": lambda: scripted(WrongArgument),
    "FORWARD_COMPILED": lambda: scripted(CallsForward),
    "NONE_TYPE": lambda: scripted(NoneFirst),
    "RANGE_VALUE": lambda: scripted(RangeValue),
    "REVERSED_TENSOR": lambda: scripted(ReversedTensor),
    "CALLABLE_TYPE": lambda: scripted(TakesCallable),
    "LAMBDA": lambda: scripted(HasLambda),
    "NO_FUNCTION": lambda: dynamo(lambda x: x.kthvalue(2, 1)[0]),
    "COMPLEX_OPERATOR": lambda: dynamo(lambda x: torch.view_as_real(torch.complex(x, x).tan())),
}


@pytest.mark.parametrize("name", PRODUCED)
def test_torch_still_writes_the_message(name: str) -> None:
    pattern: re.Pattern[str] = getattr(torch_messages, name)
    assert pattern.search(PRODUCED[name]()), name


def test_every_message_is_produced() -> None:
    patterns = {name for name, value in vars(torch_messages).items() if isinstance(value, re.Pattern)}
    assert patterns == set(PRODUCED)
