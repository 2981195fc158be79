"""Inline the forward of `torch.autograd.Function` while a model is traced, or compiled from its source.

Nothing here computes gradients. Otherwise a trace holds a call of Python, which cannot be saved, and TorchScript does
not compile the call at all.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from ..ledger import always, bound, swapped, swaps

if TYPE_CHECKING:
    import torch

_ArgumentTypes = dict[str, set[type]]  # by an argument's name, the types that it was called with
_AutogradFunction = Any  # a class derived from torch.autograd.Function: torch types neither its forward nor its context


def inlined_functions() -> AbstractContextManager[None]:
    """Let `apply` call the forward directly, while a model is traced."""
    return swapped([_APPLY])


def _call_forward(cls: _AutogradFunction, /, *arguments: object, **keywords: object) -> object:
    context = [_NoContext(len(arguments))] if _takes_context(cls) else []
    return cls.forward(*context, *arguments, **keywords)


def _takes_context(cls: _AutogradFunction) -> bool:
    import torch

    return bool(cls.setup_context is torch.autograd.Function.setup_context)


class _NoContext:
    """The context that a forward gets: nothing is saved for a backward pass."""

    def __init__(self, inputs: int) -> None:
        self.needs_input_grad = (False,) * inputs

    def save_for_backward(self, *tensors: object) -> None: ...
    def save_for_forward(self, *tensors: object) -> None: ...
    def mark_dirty(self, *tensors: object) -> None: ...
    def mark_non_differentiable(self, *tensors: object) -> None: ...
    def set_materialize_grads(self, value: bool) -> None: ...


_CONTEXT_METHODS = {name for name in vars(_NoContext) if not name.startswith("_")}


@contextmanager
def compiled_functions(model: Any, inputs: Sequence[torch.Tensor]) -> Iterator[None]:
    """Let TorchScript compile the forwards, while a model is compiled from its source.

    PyTorch's own parser reads them, so that the lines of errors stay the user's. TorchScript takes every argument
    without a type for a tensor; a call of the model with `inputs` shows which are numbers.
    """
    import torch

    apply = torch.autograd.Function.__dict__["apply"].__func__
    forwards = _CompilableForwards(model, inputs)

    def parse_without_context(parse: Callable[[object], Any]) -> Callable[[object], Any]:
        def parse_def(function: object) -> Any:
            parsed = parse(function)
            signature = forwards.signature_of(function)
            return parsed if signature is None else parsed._replace(ast=_without_context(parsed.ast, *signature))

        return parse_def

    def compile_bound_apply(compile_own: Callable[..., object]) -> Callable[..., object]:
        def try_compile_fn(function: Any, place: object) -> object:
            """Compile a function; also an `apply` that was bound to another name before."""
            is_apply = isinstance(function, MethodType) and function.__func__ is apply
            return compile_own(forwards.forward_of(function.__self__) if is_apply else function, place)

        return try_compile_fn

    parser, compiler = _COMPILER_PATCHES
    group = (replace(parser, replacement=parse_without_context), replace(compiler, replacement=compile_bound_apply))
    with swapped([bound(_APPLY, forwards), *group]):
        yield


class _CompilableForwards:
    """A descriptor in the place of `apply`: gives the forward of the class as a function that can be compiled."""

    def __init__(self, model: Any, inputs: Sequence[torch.Tensor]) -> None:
        self._model, self._inputs = model, inputs
        self._functions: dict[_AutogradFunction, FunctionType] = {}
        self._types: dict[_AutogradFunction, _ArgumentTypes] = {}
        self._was_called = self._is_called = False

    def __get__(self, _: object, owner: _AutogradFunction) -> Callable[..., object]:
        return MethodType(self._call_noting_types, owner) if self._is_called else self.forward_of(owner)

    def forward_of(self, owner: _AutogradFunction) -> Callable[..., object]:
        """Return a copy of a class's forward under a name of its own, always the same one."""
        if owner not in self._functions:
            forward = inspect.unwrap(owner.forward)
            name = f"{owner.__name__}_{forward.__name__}"
            self._functions[owner] = copy = FunctionType(
                forward.__code__, forward.__globals__, name, forward.__defaults__, forward.__closure__
            )
            copy.__annotations__ = forward.__annotations__
        return self._functions[owner]

    def signature_of(self, function: object) -> tuple[bool, _ArgumentTypes] | None:
        """Return whether a function of `forward_of` takes a context, and its arguments' types; None for any other."""
        owner = next((owner for owner, copy in self._functions.items() if copy is function), None)
        if owner is None:
            return None
        if not self._was_called:
            self._was_called = True
            self._call_model()
        return _takes_context(owner), self._types.get(owner, {})

    def _call_model(self) -> None:
        import torch

        self._is_called = True
        try:
            with torch.no_grad():
                self._model(*(tensor.clone() for tensor in self._inputs))
        finally:
            self._is_called = False

    def _call_noting_types(self, owner: _AutogradFunction, *arguments: object, **keywords: object) -> object:
        signature = inspect.signature(inspect.unwrap(owner.forward))
        context = [None] if _takes_context(owner) else []
        types = self._types.setdefault(owner, {})
        for name, value in signature.bind(*context, *arguments, **keywords).arguments.items():
            types.setdefault(name, set()).add(type(value))
        return _call_forward(owner, *arguments, **keywords)


def _without_context(tree: ast.Module, takes_context: bool, types: _ArgumentTypes) -> ast.Module:
    """Turn a parsed forward into a plain function whose numbers are annotated, in place."""
    import torch

    function: Any = tree.body[0]
    function.decorator_list = []
    arguments = function.args
    if takes_context:
        context = arguments.args.pop(0).arg
        function.body = _ContextRemover(context, function).body() or [ast.copy_location(ast.Pass(), function)]
    defaults = dict(zip(reversed(arguments.args), reversed(arguments.defaults), strict=False))
    for argument in arguments.args:
        default = defaults.get(argument)
        default_types = {type(default.value)} if isinstance(default, ast.Constant) else set()
        annotation = _TYPES.get(frozenset(types.get(argument.arg, default_types) - {torch.Tensor}))
        if argument.annotation is None and annotation:
            argument.annotation = ast.copy_location(ast.parse(annotation, mode="eval").body, argument)
            ast.fix_missing_locations(argument)
    return tree


_TYPES: dict[frozenset[type], str] = {
    frozenset([kind]): "Optional[Tensor]" if kind is type(None) else kind.__name__
    for kind in (bool, int, float, str, type(None))
}


class _ContextRemover(ast.NodeTransformer):
    """Rewrites a function's body without its context: what is stored there becomes a local where it is read again."""

    def __init__(self, context: str, function: ast.FunctionDef) -> None:
        self._context, self._function = context, function
        self._read = {
            node.attr
            for node in ast.walk(function)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and self._is_context(node.value)
        }

    def body(self) -> list[ast.stmt]:
        """Return the statements that are left."""
        self.generic_visit(self._function)
        return self._function.body

    def _is_context(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self._context

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        call = node.value
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and self._is_context(call.func.value)
            and call.func.attr in _CONTEXT_METHODS
        ):
            return None
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        node.targets = [target for target in node.targets if not self._is_unread(target)]
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


(_APPLY,) = swaps(
    "torch.autograd.Function",
    {"apply": always(classmethod(_call_forward))},
    why="A trace records a call of Python, which torch.jit.save refuses; torch.jit.script does not compile the call.",
    upstream="torch/csrc/autograd/python_function.cpp; torch/jit/_recursive.py",
    until="traces inline the forward, and TorchScript compiles it",
)
_COMPILER_PATCHES = (
    *swaps(
        "torch.jit.frontend",
        {"parse_def": lambda parse: parse},  # compiled_functions brings the replacement
        why="TorchScript takes an unannotated number for a tensor, and does not compile the context of a forward.",
        upstream="torch/jit/frontend.py",
        until="torch.jit.script compiles torch.autograd.Function",
    ),
    *swaps(
        "torch.jit._recursive",
        {"try_compile_fn": lambda compile_own: compile_own},
        why="An `apply` that was bound to a name before it was swapped is not compiled.",
        upstream="torch/jit/_recursive.py",
        until="torch.jit.script compiles torch.autograd.Function",
    ),
)
PATCHES = (_APPLY, *_COMPILER_PATCHES)
