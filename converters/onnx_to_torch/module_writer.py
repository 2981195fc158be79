"""The writer of a generated module: statements of `forward`, a trial of each, and the weights that they read.

`ModuleWriter` tries a statement on tensors without data, whose dynamic axes are symbols (torch's FakeTensorMode, as
torch.export does). `EagerWriter` runs it on real ones and keeps no text: so what is known while writing is folded by
the same operators.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...models.errors import Refused
from ...models.signature import ANY_SIZE, Array, Bounds, TensorSpec
from ..patches import private_torch
from ..patches.torch_export.temporary_settings import single_turn_loops
from .helper_source import functions
from .lazy_torch import torch
from .safe_names import IdentifierPool, comment
from .statements import FunctionStatement, Statement
from .values import Expression, SizeTerm, SymbolicSize, as_tuple, atom, computed

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "&": operator.and_,
    "|": operator.or_,
}


def torch_tensor(array: Array) -> torch.Tensor:
    """Return an array as a tensor of its own, also of the dtypes that numpy has from ml_dtypes."""
    array = np.array(array, order="C")  # a copy that may be written to
    dtype = getattr(torch, array.dtype.name)
    try:
        return torch.from_numpy(array)
    except TypeError:
        return torch.from_numpy(array.view(f"uint{8 * array.itemsize}")).view(dtype)


def array_of(tensor: torch.Tensor) -> Array:
    """Return a tensor as an array, of ml_dtypes' dtypes where numpy has none."""
    tensor = tensor.detach().contiguous()
    if tensor.dtype.is_floating_point and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        import ml_dtypes

        bits = torch.uint8 if tensor.itemsize == 1 else torch.uint16
        return tensor.view(bits).numpy().view(getattr(ml_dtypes, str(tensor.dtype).removeprefix("torch.")))
    return tensor.numpy()


class ModuleWriter:
    """Text and trial of a module that is being written."""

    def __init__(self) -> None:
        self.names = IdentifierPool([*functions(), "weights"])
        self.attributes = IdentifierPool([*dir(torch.nn.Module), *vars(torch.nn.Module())])
        self.lines: list[Statement | FunctionStatement] = []
        self.inputs: list[str] = []  # the arguments of `forward`
        self.weights: dict[str, Array] = {}  # by the attribute that holds it
        self.statistics: set[str] = set()  # the weights that are not trained
        self.origin = ""
        self.helpers: set[str] = set()
        self.axes: dict[str, str] = {}  # where each dynamic axis is read, by the variable that has its size
        self._axis_code: dict[str, str] = {}  # the same variables by the name of the axis, and by symbol
        self._symbols: dict[Any, str] = {}
        self._dynamic: list[tuple[Any, str]] = []
        self._ranges: dict[Any, Any] = {}  # by symbol, the sizes that the signature allows
        self._held: dict[int, tuple[Array, str, torch.Tensor]] = {}
        self._module = SimpleNamespace()
        self._fake = private_torch.FakeTensorMode(shape_env=private_torch.ShapeEnv())
        self.scope: dict[str, Any] = {
            "torch": import_module("torch"), "F": torch.nn.functional, "math": math, "self": self._module, **functions()
        }  # fmt: skip

    @contextmanager
    def mode(self) -> Iterator[None]:
        """Enter the mode in which trials run; PyTorch's own layers run in Python there and keep sizes as symbols."""
        with single_turn_loops(), private_torch.enable_python_dispatcher(), self._fake:
            yield

    def argument(self, spec: TensorSpec, example: torch.Tensor, bounds: Mapping[str, Bounds]) -> Expression:
        """Add an input of the module; `bounds` of its dynamic axes."""
        kinds = private_torch.DimDynamic
        dims = [kinds.STATIC if isinstance(axis, int) else kinds.DYNAMIC for axis in spec.shape]
        context = private_torch.StatelessSymbolicContext(dynamic_sizes=dims)
        trial = self._fake.from_tensor(example, symbolic_context=context)
        name = self.names.fresh(spec.name, "input")
        self.scope[name] = trial
        for at, axis in spec.dynamic_axes.items():
            size: Any = trial.shape[at]
            if isinstance(size, int):
                raise ValueError(f"an example of the dynamic axis {comment(axis)} must have 2 elements or more")
            self._dynamic.append((size, axis))
            if axis not in self._axis_code:
                code = self._axis_code[axis] = self._symbols[size.node.expr] = self.names.fresh(axis, "size")
                bound = bounds.get(axis, ANY_SIZE)
                high = private_torch.int_oo if bound.high is None else bound.high
                self._ranges[size.node.expr] = private_torch.ValueRanges(bound.low, high)
                self.axes[code] = f"{name}.shape[{at}]"
                self.scope[code] = size
            elif size != self.scope[self._axis_code[axis]]:  # comparing makes one symbol stand for both
                raise ValueError(f"the examples have two sizes of the axis {comment(axis)}")
        self.inputs.append(name)
        return computed(self, name, trial)

    def check_axes(self) -> None:
        """Raise Refused where a statement's trial took a dynamic size for a constant: the text would have that one."""
        for size, axis in self._dynamic:
            if size.node.expr.is_number:
                raise Refused(
                    f"the axis {comment(axis)} cannot be dynamic: PyTorch makes its size a constant in an operator",
                    fix="give that axis its size in --input, or in the model",
                )

    def axis_lines(self, used: str) -> list[str]:
        """Return the statements that name the dynamic axes, of those that the text `used` reads."""
        return [f"{name} = {where}" for name, where in self.axes.items() if re.search(rf"\b{name}\b", used)]

    @property
    def device(self) -> str:
        """The argument that makes a tensor where the inputs are."""
        return f", device={self.inputs[0]}.device" if self.inputs else ""

    # Statements

    def run(self, code: str) -> Any:
        """Return the trial of an expression."""
        compiled = compile(code, "<forward>", "eval")
        self.helpers.update(set(compiled.co_names) & functions().keys())
        with torch.no_grad(), self.mode():
            return eval(compiled, self.scope)  # noqa: S307  text of ours: names.py says what of a file may be in it

    def let(self, code: str, name: str) -> Expression:
        """Write an expression into a variable."""
        return self.assign(code, [name], [self.run(code)])[0]

    def unpack(self, code: str, names: Sequence[str]) -> list[Expression]:
        """Write an expression that makes several tensors into variables."""
        return self.assign(code, names, list(self.run(code)))

    def assign(self, code: str, names: Sequence[str], trials: Sequence[torch.Tensor]) -> list[Expression]:
        """Write an expression whose trials are known into variables."""
        targets = [self.names.fresh(name) for name in names]
        self.scope.update(zip(targets, trials, strict=True))
        self.lines.append(Statement(tuple(targets), code, self.origin))
        return [computed(self, target, trial) for target, trial in zip(targets, trials, strict=True)]

    def number(self, code: str, name: str) -> SizeTerm:
        """Write an expression that makes a whole number into a variable."""
        trials = self.run(code)
        if isinstance(trials, int) and not isinstance(trials, bool):
            return int(trials)
        target = self.names.fresh(name)
        self.scope[target] = trials
        self.lines.append(Statement((target,), code, self.origin))
        return SymbolicSize(target, trials)

    def variable(self, name: str, trial: torch.Tensor) -> Expression:
        """Add an argument of a function that is being written, whose trial is like a tensor outside of it."""
        target = self.names.fresh(name)
        self.scope[target] = trial
        return computed(self, target, trial)

    def unsure(self, trial: torch.Tensor, sure: Sequence[bool]) -> torch.Tensor:
        """Return a trial in which the sizes that are not `sure` show only when the module runs."""
        if all(sure):
            return trial
        new_size = self._fake.shape_env.create_unbacked_symint
        sizes = [size if is_sure else new_size() for size, is_sure in zip(trial.shape, sure, strict=True)]
        with self.mode():
            return trial.new_empty(sizes)

    def size_code(self, size: Any) -> str | None:
        """Return the code of a size inside a function, by a name outside of it that has it; None where none has."""
        expression = size.node.expr
        if name := self._symbols.get(expression):
            return name
        outside = {target for line in self.lines if isinstance(line, Statement) for target in line.targets}
        for name in [*self.inputs, *sorted(outside)]:
            for at, axis_size in enumerate(getattr(self.scope[name], "shape", ())):
                if not isinstance(axis_size, int) and axis_size.node.expr == expression:
                    return f"{name}.shape[{at}]"
        return None

    # Values

    def hold(self, value: Expression) -> tuple[str, torch.Tensor]:
        """Return the attribute that holds a known value, and its trial. The same array is held once."""
        array = value.known_array
        if id(array) not in self._held:
            name = self.attributes.fresh(value.name or "constant", "weight")
            self.weights[name] = array
            trial = self.run(f"torch.empty({array.shape}, dtype=torch.{array.dtype.name})")
            setattr(self._module, name, trial)
            self._held[id(array)] = (array, f"self.{name}", trial)
        return self._held[id(array)][1:]

    def stack(self, value: Expression) -> tuple[str, torch.Tensor]:
        """Write sizes as a tensor into a variable."""
        if value.parts is None:
            raise ValueError("a value that is neither known, nor of sizes, nor computed")
        parts = [self.counted(part) for part in value.parts.reshape(-1)]
        inner = f"{parts[0]}" if not value.rank else as_tuple(parts)
        helper = "size_tensor" if not value.rank else "sizes_tensor"
        shaped = f".reshape{value.shape}" if value.rank > 1 else ""
        tensor = self.let(f"{helper}({inner}, torch.{value.dtype}{self.device}){shaped}", "sizes")
        return str(tensor), self.scope[str(tensor)]

    # Sizes

    def part(self, code: str, trial: Any) -> SizeTerm:
        """Return a size or condition by its shortest name; as a number where the signature allows only one."""
        if isinstance(trial, int):
            return trial
        expression = trial.node.expr
        low, high = self._range(expression)
        if low == high:
            return bool(low) if isinstance(trial, torch.SymBool) else int(low)
        return SymbolicSize(self._symbols.get(expression, code), trial)

    def _range(self, expression: Any) -> tuple[Any, Any]:
        """Return the least and the largest value of an expression of sizes."""
        bounds = private_torch.bound_sympy(expression, self._ranges)
        return bounds.lower, bounds.upper

    def at_least(self, part: SizeTerm, number: int) -> bool:
        """Return whether a size is always `number` or more."""
        return bool((self._range(part.trial.node.expr)[0] if isinstance(part, SymbolicSize) else part) >= number)

    def is_multiple(self, a: SizeTerm, b: SizeTerm) -> bool:
        """Return whether a size is seen to be a multiple of b, as x - x % b is: every rounding gives one quotient."""
        if not isinstance(a, SymbolicSize):
            return isinstance(b, int) and a % b == 0
        dividend, by = a.trial.node.expr, _trial(b)
        rests = dividend.atoms(private_torch.Mod, private_torch.PythonMod)
        rests = [rest for rest in rests if rest.args[1] == getattr(by, "node", by)]
        return any((dividend + rest - rest.args[0]).expand() == 0 for rest in rests)

    def same(self, a: SizeTerm, b: SizeTerm) -> bool:
        """Return whether two sizes are equal for all that the signature allows."""
        return self.combine("==", a, b) is True

    def combine(self, sign: str, a: SizeTerm, b: SizeTerm) -> SizeTerm:
        """Return a + b, a // b (towards minus infinity), a % b (as Python has it), a == b ..., the max or the min."""
        trials = [_trial(part) for part in (a, b)]
        if isinstance(a, int) and (a, sign) in ((0, "+"), (1, "*")):
            return b
        if isinstance(b, int) and (sign, b) in (("+", 0), ("-", 0), ("*", 1), ("//", 1)):
            return a
        if sign in ("max", "min"):
            for low, high in ((a, b), (b, a)):
                if self.combine("<=", low, high) is True:
                    return high if sign == "max" else low
            return self.part(f"torch.sym_{sign}({a}, {b})", getattr(torch, f"sym_{sign}")(*trials))
        return self.part(f"{atom(a)} {sign} {atom(b)}", _OPERATORS[sign](*trials))

    def negated(self, condition: SizeTerm) -> SizeTerm:
        """Return the opposite of a condition."""
        if isinstance(condition, int):
            return not condition
        opposite: Callable[[Any], Any] = torch.sym_not
        return self.part(f"torch.sym_not({condition})", opposite(condition.trial))

    def chosen(self, condition: SizeTerm, a: SizeTerm, b: SizeTerm) -> SizeTerm:
        """Return a where the condition holds, else b."""
        if isinstance(condition, int):
            return a if condition else b
        if self.same(a, b) or _meet(condition, a, b):
            return b
        self.helpers.add("either")
        trial = functions()["either"](condition.trial, _trial(a), _trial(b))
        return self.part(f"either({condition}, {a}, {b})", trial)

    def counted(self, part: SizeTerm) -> SizeTerm:
        """Return a condition as 1 or 0, and a size as it is."""
        if isinstance(part, SymbolicSize) and isinstance(part.trial, torch.SymBool):
            return self.chosen(part, 1, 0)
        return part if isinstance(part, SymbolicSize) else int(part)

    def product(self, parts: Sequence[SizeTerm]) -> SizeTerm:
        """Return the product of sizes."""
        answer: SizeTerm = 1
        for part in parts:
            answer = self.combine("*", answer, part)
        return answer


def _trial(part: SizeTerm) -> Any:
    return part.trial if isinstance(part, SymbolicSize) else part


def _meet(condition: SymbolicSize, a: SizeTerm, b: SizeTerm) -> bool:
    """Return whether a condition says that a size is a number for which a and b are equal: then b is right."""
    import sympy  # type: ignore[import-untyped]

    equation = condition.trial.node.expr
    if not isinstance(equation, sympy.Eq) or not equation.lhs.is_Symbol or not equation.rhs.is_number:
        return False
    first, second = (part.trial.node.expr if isinstance(part, SymbolicSize) else sympy.Integer(part) for part in (a, b))
    return bool(first.subs(equation.lhs, equation.rhs) == second.subs(equation.lhs, equation.rhs))


class EagerWriter(ModuleWriter):
    """A writer that runs expressions at once, on real tensors."""

    @contextmanager
    def mode(self) -> Iterator[None]:
        """Enter no mode: real tensors need none."""
        yield

    def hold(self, value: Expression) -> tuple[str, torch.Tensor]:
        """Return a variable with the array."""
        name = self.names.fresh("known")
        self.scope[name] = torch_tensor(value.known_array)
        return name, self.scope[name]
