"""End a call of a module behind the last operator that can refuse values, as its tables do. Worker only.

The layers behind take most of the time of a call. A call of few samples shows which operators there are."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

# Operators of torch.ops.aten that answer to any values, beside views and what torch calls pointwise or a reduction.
_TAKE_ANY_VALUE = {
    "addmm", "addmv", "arange", "argsort", "baddbmm", "bmm", "cat", "convolution", "copy", "cumsum", "detach", "dot",
    "fill", "flip", "linear", "_log_softmax", "matmul", "mkldnn_convolution", "mm", "mv", "repeat", "roll",
    "_safe_softmax", "scalar_tensor", "_softmax", "sort", "stack", "_to_copy", "topk", "tril", "triu",
}  # fmt: skip
_FAMILIES_THAT_TAKE_ANY = (
    "_adaptive_avg_pool", "_native_batch_norm", "_scaled_dot_product", "adaptive_", "avg_pool", "empty", "full",
    "max_pool", "native_", "new_", "ones", "reflection_pad", "replication_pad", "unsafe_split", "upsample_", "zero",
)  # fmt: skip
_RAISE_FOR_INTEGERS = ("div", "fmod", "pow", "remainder")  # where they divide by zero, or have a negative exponent
_READS_UNSEEN = ("__array__", "__dlpack__", "data_ptr", "numpy", "tolist", "untyped_storage")  # by no operator


@dataclass(frozen=True)
class OperatorSequence:
    """The operators of a call in their order.
    `decided`: how many there are up to the last that may refuse values; None where code that is no operator may.
    `is_closed`: each tensor is a weight, an input, or made of these; no numbers of Python or numpy are drawn beside."""

    names: tuple[str, ...]
    decided: int | None
    draws_random: bool
    is_closed: bool
    seconds: float


class _ValuesTaken(BaseException):
    """No operator is left that can refuse the values of the call. No `except Exception` of a model's catches it."""


def trace_operators(
    module: torch.nn.Module, call: Callable[[], object], inputs: Sequence[torch.Tensor] = ()
) -> OperatorSequence | None:
    """Call a module with `inputs` and record its operators; None where they are not seen, or the call raises.
    A module without parameters may stand for one of another interpreter, whose operators are not seen here."""
    import torch
    from torch.utils import _pytree as pytree

    parts = list(module.modules())
    if not any(part._parameters for part in parts) or any(isinstance(part, torch.jit.ScriptModule) for part in parts):
        return None
    names: list[str] = []
    decided: list[int | None] = [0]
    drawn: list[bool] = []
    known = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers(), *inputs)}
    foreign: list[object] = []

    def note(func: Any, arguments: Sequence[Any]) -> None:
        tensors = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
        foreign.extend(tensor for tensor in tensors if id(tensor) not in known or func.namespace != "aten")
        name = func.overloadpacket.__name__
        names.append(str(func))
        if name == "_local_scalar_dense" and arguments[0].dtype != torch.bool:
            decided.append(None)  # a truth value is asked for a branch, there; a number may be refused later
        elif _may_refuse(func, arguments):
            decided.append(len(names))
        drawn.append(torch.Tag.nondeterministic_seeded in func.tags and not name.startswith("_scaled_dot"))

    def keep(result: object) -> None:
        known.update({id(leaf): leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)})

    start, generators = time.monotonic(), _generator_states()
    try:
        with _watching(note, lambda: decided.append(None), keep):
            call()
    except Exception:  # noqa: BLE001  (a call without a watch tells what is wrong)
        if dynamo := sys.modules.get("torch._dynamo"):
            dynamo.reset()  # torch.scan and torch.cond compile themselves: what failed to under a watch is kept
        return None
    last = None if None in decided else decided[-1]
    is_closed = not foreign and generators == _generator_states()
    return OperatorSequence(tuple(names), last, any(drawn), is_closed, time.monotonic() - start)


def _generator_states() -> tuple[object, ...]:
    return random.getstate(), *map(str, np.random.get_state())


def call_until_values_taken(call: Callable[[], object], trace: OperatorSequence) -> None:
    """Make a call of other samples, and end it where no operator is left that can refuse its values.
    A call with other operators than the trace is made to its end. Raises what the call raises."""
    if trace.decided is None or trace.decided == len(trace.names):
        call()
        return
    left = list(reversed(trace.names[: trace.decided + 1]))  # the next one, too: behind a branch comes another
    differs = False

    def end(func: Any, _: object) -> None:
        nonlocal differs
        differs = differs or left.pop() != str(func)
        if not differs and not left:
            raise _ValuesTaken

    with suppress(_ValuesTaken), _watching(end, lambda: None):
        call()


@contextmanager
def _watching(
    note: Callable[[Any, Any], None], note_read: Callable[[], None], keep: Callable[[object], None] = lambda _: None
) -> Iterator[None]:
    """Call `note` before each operator, `keep` with its result, and `note_read` where Python reads a tensor by none."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> object:
            note(func, args)
            keep(result := func(*args, **(kwargs or {})))
            return result

    class Reads(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> object:
            if getattr(func, "__name__", "") in _READS_UNSEEN:
                note_read()
            return func(*args, **(kwargs or {}))

    with Reads(), Operators():  # type: ignore[no-untyped-call]
        yield


def _may_refuse(func: Any, arguments: Sequence[Any]) -> bool:
    """Return whether an operator may raise for the values of its operands."""
    import torch

    name, tags = func.overloadpacket.__name__.removesuffix("_"), {*func.tags}
    if func.namespace == "aten" and name in _RAISE_FOR_INTEGERS:
        return not any(isinstance(value, torch.Tensor) and value.is_floating_point() for value in arguments)
    reads = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.nondeterministic_seeded}
    is_plain = not reads & tags and {torch.Tag.pointwise, torch.Tag.reduction} & tags
    takes_any = func.is_view or name in _TAKE_ANY_VALUE or name.startswith(_FAMILIES_THAT_TAKE_ANY)
    return func.namespace != "aten" or not (is_plain or takes_any)
