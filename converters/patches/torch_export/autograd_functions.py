"""A `torch.autograd.Function` as its forward: nothing here goes backward. A trace else holds a call of Python, which
cannot be saved, and of compiled source nothing can be made at all."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import FunctionType, MethodType
from typing import Any

from ..torch_shared.replaced import Instead, replaced

_Kinds = dict[str, set[type]]  # of what an argument was given


def inlined_functions() -> AbstractContextManager[None]:
    """While a model is traced."""
    import torch

    return replaced([Instead(torch.autograd.Function, "apply", classmethod(_called))])


def _called(cls: Any, *arguments: Any, **keywords: Any) -> Any:
    context = [_NoContext(len(arguments))] if _has_context(cls) else []
    return cls.forward(*context, *arguments, **keywords)


def _has_context(cls: Any) -> bool:
    import torch

    return bool(cls.setup_context is torch.autograd.Function.setup_context)


class _NoContext:
    """What a custom function's forward is given in place of a context."""

    def __init__(self, inputs: int) -> None:
        self.needs_input_grad = (False,) * inputs

    def save_for_backward(self, *tensors: Any) -> None: ...
    def save_for_forward(self, *tensors: Any) -> None: ...
    def mark_dirty(self, *tensors: Any) -> None: ...
    def mark_non_differentiable(self, *tensors: Any) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...


_MARKS = {name for name in vars(_NoContext) if not name.startswith("_")}


@contextmanager
def compiled_functions(model: Any, inputs: Sequence[Any]) -> Iterator[None]:
    """While a model is compiled from its source, by PyTorch's own parser: lines of errors stay the user's.

    TorchScript takes every argument without a type for a tensor. Which are numbers shows in a call with these inputs.
    """
    import torch
    from torch.jit import _recursive

    frontend: Any = torch.jit.frontend  # not all of it is in its types
    apply = torch.autograd.Function.__dict__["apply"].__func__
    plain = _Plain(model, inputs)
    parse: Any = frontend.parse_def
    compile_own: Any = _recursive.try_compile_fn

    def parsed(function: Any) -> Any:
        made = parse(function)
        kinds = plain.kinds_of(function)
        return made if kinds is None else made._replace(ast=_without_context(made.ast, *kinds))

    def compiled(function: Any, place: Any) -> Any:
        """Also by another name that was bound to it before."""
        is_bound = isinstance(function, MethodType) and function.__func__ is apply
        return compile_own(plain.of(function.__self__) if is_bound else function, place)

    with replaced(
        [
            Instead(torch.autograd.Function, "apply", plain),
            Instead(frontend, "parse_def", parsed),
            Instead(_recursive, "try_compile_fn", compiled),
        ]
    ):
        yield


class _Plain:
    """In the place of `apply`: the forward of the class that it is asked of, as a function that can be compiled."""

    def __init__(self, model: Any, inputs: Sequence[Any]) -> None:
        self._model, self._inputs = model, inputs
        self._made: dict[Any, Any] = {}
        self._kinds: dict[Any, _Kinds] = {}
        self._was_called = self._is_called = False

    def __get__(self, _: Any, owner: Any) -> Callable[..., Any]:
        return MethodType(self._noted, owner) if self._is_called else self.of(owner)

    def of(self, owner: Any) -> Callable[..., Any]:
        if owner not in self._made:
            own = inspect.unwrap(owner.forward)
            self._made[owner] = made = FunctionType(
                own.__code__, own.__globals__, f"{owner.__name__}_{own.__name__}", own.__defaults__, own.__closure__
            )
            made.__annotations__ = own.__annotations__
        found: Callable[..., Any] = self._made[owner]
        return found

    def kinds_of(self, function: Any) -> tuple[bool, _Kinds] | None:
        """Of a function that `of` has made whether it takes a context, and what it was given; else None."""
        owner = next((owner for owner, made in self._made.items() if made is function), None)
        if owner is None:
            return None
        if not self._was_called:
            self._was_called = True
            self._call()
        return _has_context(owner), self._kinds.get(owner, {})

    def _call(self) -> None:
        import torch

        self._is_called = True
        try:
            with torch.no_grad():
                self._model(*(each.clone() for each in self._inputs))
        finally:
            self._is_called = False

    def _noted(self, owner: Any, *arguments: Any, **keywords: Any) -> Any:
        own = inspect.signature(inspect.unwrap(owner.forward))
        context = [None] if _has_context(owner) else []
        noted = self._kinds.setdefault(owner, {})
        for name, value in own.bind(*context, *arguments, **keywords).arguments.items():
            noted.setdefault(name, set()).add(type(value))
        return _called(owner, *arguments, **keywords)


def _without_context(tree: ast.Module, has_context: bool, kinds: _Kinds) -> ast.Module:
    """A forward as a plain function, whose numbers have types."""
    function: Any = tree.body[0]
    function.decorator_list = []
    arguments = function.args
    if has_context:
        context = arguments.args.pop(0).arg
        function.body = _Without(context, function).body() or [ast.copy_location(ast.Pass(), function)]
    defaults = dict(zip(reversed(arguments.args), reversed(arguments.defaults), strict=False))
    for each in arguments.args:
        value = defaults.get(each)
        own = {type(value.value)} if isinstance(value, ast.Constant) else set()
        kind = _TYPES.get(frozenset(kinds.get(each.arg, own) - {_tensor()}))
        if each.annotation is None and kind:
            each.annotation = ast.copy_location(ast.parse(kind, mode="eval").body, each)
            ast.fix_missing_locations(each)
    return tree


_TYPES: dict[frozenset[type], str] = {
    frozenset([kind]): "Optional[Tensor]" if kind is type(None) else kind.__name__
    for kind in (bool, int, float, str, type(None))
}


def _tensor() -> type:
    import torch

    return torch.Tensor


class _Without(ast.NodeTransformer):
    """The body of a function without its context. What is kept on that is a local value where it is read again."""

    def __init__(self, context: str, function: ast.FunctionDef) -> None:
        self._context, self._function = context, function
        self._read = {
            node.attr
            for node in ast.walk(function)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and self._is_context(node.value)
        }

    def body(self) -> list[ast.stmt]:
        self.generic_visit(self._function)
        return self._function.body

    def _is_context(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self._context

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        made = node.value
        if (
            isinstance(made, ast.Call)
            and isinstance(made.func, ast.Attribute)
            and self._is_context(made.func.value)
            and made.func.attr in _MARKS
        ):
            return None
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        node.targets = [each for each in node.targets if not self._is_unread(each)]
        return self.generic_visit(node) if node.targets else None

    def _is_unread(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and self._is_context(node.value) and node.attr not in self._read

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        value = node.value
        if isinstance(value, ast.Attribute) and self._is_context(value.value) and value.attr == "needs_input_grad":
            return ast.copy_location(ast.Constant(False), node)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if self._is_context(node.value) and node.attr in self._read:
            return ast.copy_location(ast.Name(f"{self._context}_{node.attr}", node.ctx), node)
        return self.generic_visit(node)
