"""Every call of an operator while a PyTorch model answers: its arguments, its results, its module, its source line.

Under inference mode a dispatch mode sees the operators that the code calls (conv2d, layer_norm, lstm), and not those
that PyTorch makes of them for gradients (tried: torch 2.9 to 2.12).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...models.source_lines import line_in, running_line

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class OperatorCall:
    """A call of an operator. Values are numbered in the order in which they arise, the model's inputs first."""

    index: int
    function: Any  # torch._ops.OpOverload
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    module: str  # the path of the innermost module that runs: "layers.3.norm"
    line: str  # "net.py:14 (`x = self.norm(x)`)"; empty if it is not known
    reads: tuple[int, ...]
    writes: tuple[int, ...]

    @property
    def operator(self) -> str:
        """The operator's name in PyTorch, without namespace and overload: "layer_norm"."""
        return str(self.function).split(".")[1].strip("_")

    @property
    def is_view(self) -> bool:
        """Whether it moves or renames values, and computes none."""
        return self.function.is_view or self.operator in _MOVERS


_MOVERS = frozenset({
    "contiguous", "clone", "reshape", "flatten", "dropout", "to", "flip", "cat", "stack", "index_select", "copy",
    "detach", "alias", "lift_fresh", "repeat", "roll", "gather", "index", "pixel_shuffle",
})  # fmt: skip

Replace = Callable[["OperatorCall"], "list[torch.Tensor] | None"]
Listen = Callable[["OperatorCall", "list[torch.Tensor]"], None]


class EndTrace(Exception):
    """A listener has seen enough."""


@dataclass
class OperatorTrace:
    """The calls of one answer. `listen` is told each call with its results, and may change them in place;
    `stored` may give the results of a call that is then not run."""

    listen: Listen
    stored: Replace = lambda _call: None
    calls: list[OperatorCall] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)  # of tensors by id
    _alive: list[torch.Tensor] = field(default_factory=list)  # an id is unique among objects that live
    _copies: list[torch.Tensor] = field(default_factory=list)
    _written: dict[int, int] = field(default_factory=dict)  # the last value in a storage that was written to
    _modules: list[str] = field(default_factory=list)
    _node: Any = None  # of an exported program

    def run(self, model: Any, inputs: Sequence[torch.Tensor], around: Any = None) -> Any:
        """Answer the inputs, and return what the model returns; None where a listener ended the trace.
        `around`: a context that is entered before, as float64_mode's."""
        import torch

        for tensor in inputs:
            self._number(tensor)
        fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)  # it hides all of a transformer's layer in one operator
        try:
            with torch.inference_mode(), around or contextlib.nullcontext(), self._paths(model), _mode(self):
                return self._answer(model, inputs)
        except EndTrace:
            return None
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)

    def number_of(self, tensor: torch.Tensor) -> int | None:
        """Return the number of the value in a tensor; None for a weight."""
        return self._numbers.get(id(tensor))

    def _answer(self, model: Any, inputs: Sequence[torch.Tensor]) -> Any:
        import torch

        if not isinstance(model, torch.fx.GraphModule):
            return model(*inputs)
        trace = self

        class NodeNames(torch.fx.Interpreter):
            def run_node(self, n: torch.fx.Node) -> Any:
                trace._node = n
                return super().run_node(n)

        return NodeNames(model).run(*inputs)

    def note(self, function: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Run a call, and record it."""
        read = tensors_in((arguments, keywords))
        reads = dict.fromkeys(number for tensor in read for number in self._numbers_of(tensor))
        module, line = self._place()
        kept: tuple[Any, Any] = arguments, keywords
        if function._schema.is_mutable:
            kept = self._copied(arguments), {name: self._copied(item) for name, item in keywords.items()}
        call = OperatorCall(len(self.calls), function, *kept, module, line, tuple(reads), ())
        stored = self.stored(call)
        returned = function(*arguments, **keywords) if stored is None else _like(function, stored)
        results = tensors_in(returned)
        if function._schema.is_mutable:
            changed = [tensor for tensor in read if any(tensor is result for result in results)] or results
            for tensor in changed:
                self._written[_storage(tensor)] = len(self._alive)
        writes = tuple(self._number(tensor) for tensor in results)
        call = replace(call, writes=writes)
        self.calls.append(call)
        self.listen(call, results)
        return returned

    def _copied(self, value: Any) -> Any:
        """Copy the tensors in arguments that a call writes into; a copy has the number of its tensor."""
        import torch

        if isinstance(value, list | tuple):
            return type(value)(map(self._copied, value))
        if not isinstance(value, torch.Tensor):
            return value
        copy = value.clone()
        if (number := self._numbers.get(id(value))) is not None:
            self._numbers[id(copy)] = number
            self._copies.append(copy)
        return copy

    def _number(self, tensor: torch.Tensor) -> int:
        number = len(self._alive)
        self._alive.append(tensor)
        self._numbers[id(tensor)] = number
        return number

    def _numbers_of(self, tensor: torch.Tensor) -> Iterator[int]:
        """Yield the value in a tensor, and the one that was written into its memory since."""
        own = self._numbers.get(id(tensor))
        later = self._written.get(_storage(tensor))
        if own is not None:
            yield own
        if later is not None and later != own:
            yield later

    def _place(self) -> tuple[str, str]:
        if self._node is None:
            return (self._modules[-1] if self._modules else ""), running_line()
        stack = self._node.meta.get("nn_module_stack") or {}
        module = [*stack.values()][-1][0] if stack else ""
        return module.removeprefix("L['self'].").removeprefix("L__self___"), line_in(
            self._node.meta.get("stack_trace") or ""
        ) or ""

    @contextlib.contextmanager
    def _paths(self, model: Any) -> Iterator[None]:
        """Keep the path of the module that runs. The wrapper of a source calls its model `model`."""
        paths = {id(module): path for path, module in getattr(model, "named_modules", list)()}
        prefix = "model." if type(model).__name__ == "Flat" else ""

        def enter(module: Any, _arguments: Any) -> None:
            self._modules.append(paths.get(id(module), "").removeprefix(prefix).removeprefix("model" if prefix else ""))

        def leave(_module: Any, _arguments: Any, _result: Any) -> None:
            self._modules.pop()

        with contextlib.ExitStack() as hooks:
            for module in getattr(model, "modules", tuple)():
                hooks.enter_context(module.register_forward_pre_hook(enter, prepend=True))
                hooks.enter_context(module.register_forward_hook(leave))
            yield


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors in nested arguments or results, in order."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [tensor for item in value for tensor in tensors_in(item)] if isinstance(value, tuple | list) else []


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _like(function: Any, results: Sequence[torch.Tensor]) -> Any:
    """Return results as the operator does: one tensor, or several."""
    returns = function._schema.returns
    return results[0] if len(returns) == 1 and str(returns[0].type) == "Tensor" else tuple(results)


def _mode(trace: OperatorTrace) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class TraceMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not annotate its base
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            return trace.note(func, args, kwargs or {})

    mode: Any = TraceMode
    return mode()
