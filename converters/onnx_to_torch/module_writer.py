"""The page that a module is written on: lines of `forward`, the weights that they read, and the trial of each line.

`Page` tries a line on tensors without data, whose dynamic axes are symbols (torch's FakeTensorMode, as torch.export
does). `Now` runs it on real ones and keeps no text: so what is known while writing is folded by the same operators.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.errors import Refused
from ...models.signature import ANY_SIZE, Array, Bounds, TensorSpec
from ..patches import private_torch
from ..patches.torch_export.temporary_settings import single_turn_loops
from .helper_source import functions
from .safe_names import Names, comment
from .statements import Block, Line, tupled
from .values import Part, Size, Value, atom, computed

if TYPE_CHECKING:
    import torch

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
    """An array as a tensor of its own, also of the dtypes that numpy has from ml_dtypes."""
    import torch

    array = np.array(array, order="C")  # a copy that may be written to
    dtype = getattr(torch, array.dtype.name)
    try:
        return torch.from_numpy(array)
    except TypeError:
        return torch.from_numpy(array.view(f"uint{8 * array.itemsize}")).view(dtype)


def array_of(tensor: torch.Tensor) -> Array:
    """A tensor as an array, of ml_dtypes' dtypes where numpy has none."""
    import torch

    tensor = tensor.detach().contiguous()
    if tensor.dtype.is_floating_point and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        import ml_dtypes

        bits = torch.uint8 if tensor.itemsize == 1 else torch.uint16
        return tensor.view(bits).numpy().view(getattr(ml_dtypes, str(tensor.dtype).removeprefix("torch.")))
    return tensor.numpy()


class Page:
    """Text and trial of a module that is being written."""

    def __init__(self) -> None:
        import torch

        self.names = Names([*functions(), "weights"])
        self.attributes = Names([*dir(torch.nn.Module), *vars(torch.nn.Module())])
        self.lines: list[Line | Block] = []
        self.inputs: list[str] = []  # the arguments of `forward`
        self.weights: dict[str, Array] = {}  # by the attribute that holds it
        self.statistics: set[str] = set()  # of the weights, those of which no gradient can be taken
        self.origin = ""
        self.helpers: set[str] = set()
        self.axes: dict[str, str] = {}  # dynamic axes that the code names, and where each is read
        self._axis_code: dict[str, str] = {}
        self._dynamic: list[tuple[Any, str]] = []
        self._symbols: dict[Any, str] = {}
        self._ranges: dict[Any, Any] = {}  # by symbol, the sizes that the signature allows
        self._held: dict[int, tuple[Array, str, torch.Tensor]] = {}
        self._module = SimpleNamespace()
        self._fake = private_torch.FakeTensorMode(shape_env=private_torch.ShapeEnv())
        self.scope: dict[str, Any] = {
            "torch": torch, "F": torch.nn.functional, "math": math, "self": self._module, **functions()
        }  # fmt: skip

    @contextmanager
    def mode(self) -> Iterator[None]:
        """In which tensors are made; PyTorch's own layers in Python, where they keep sizes as symbols."""
        with single_turn_loops(), private_torch.enable_python_dispatcher(), self._fake:
            yield

    def argument(self, spec: TensorSpec, example: torch.Tensor, bounds: Mapping[str, Bounds]) -> Value:
        """An input of the module; `bounds` of its dynamic axes."""
        kinds = private_torch.DimDynamic
        dims = [kinds.STATIC if isinstance(axis, int) else kinds.DYNAMIC for axis in spec.shape]
        trial = self._fake.from_tensor(
            example,
            symbolic_context=private_torch.StatelessSymbolicContext(dynamic_sizes=dims),
        )
        name = self.names.fresh(spec.name, "input")
        self.scope[name] = trial
        for at, axis in spec.dynamic_axes.items():
            size: Any = trial.shape[at]
            if isinstance(size, int):
                raise ValueError(f"an example of the dynamic axis {comment(axis)} must have 2 elements or more")
            self._dynamic.append((size, axis))
            if axis not in self._axis_code:
                self._axis_code[axis] = self.names.fresh(axis, "size")
                self._symbols[size.node.expr] = axis
                self._ranges[size.node.expr] = _allowed(bounds.get(axis, ANY_SIZE))
                self.axes[axis] = f"{name}.shape[{at}]"
                self.scope[self._axis_code[axis]] = trial.shape[at]
            elif size != self.scope[self._axis_code[axis]]:  # asked, so that one symbol stands for both
                raise ValueError(f"the examples have two sizes of the axis {comment(axis)}")
        self.inputs.append(name)
        return computed(self, name, trial)

    def check_axes(self) -> None:
        """Hold the dynamic axes against what the trial has made of them.

        Raises Refused where a statement took the size of one for a constant: then the text would have that constant.
        """
        for size, axis in self._dynamic:
            if size.node.expr.is_number:
                raise Refused(
                    f"the axis {comment(axis)} cannot be dynamic: PyTorch makes its size a constant in an operator",
                    fix="give that axis its size in --input, or in the model",
                )

    def axis_lines(self, used: str) -> list[str]:
        """The statements that give the dynamic axes their names, of those that the text `used` speaks of."""
        found = [(self._axis_code[axis], where) for axis, where in self.axes.items()]
        return [f"{name} = {where}" for name, where in found if re.search(rf"\b{name}\b", used)]

    @property
    def device(self) -> str:
        """The argument that makes a tensor where the inputs are."""
        return f", device={self.inputs[0]}.device" if self.inputs else ""

    # Statements

    def run(self, code: str) -> Any:
        """What an expression makes."""
        import torch

        compiled = compile(code, "<forward>", "eval")
        self.helpers.update(set(compiled.co_names) & functions().keys())
        with torch.no_grad(), self.mode():
            return eval(compiled, self.scope)  # noqa: S307  text of ours: names.py says what of a file may be in it

    def let(self, code: str, name: str) -> Value:
        """A variable for what an expression makes."""
        (value,) = self.unpack(code, [name], alone=True)
        return value

    def unpack(self, code: str, names: Sequence[str], *, alone: bool = False) -> list[Value]:
        """Variables for the tensors that an expression makes."""
        made = [self.run(code)] if alone else list(self.run(code))
        targets = [self.names.fresh(name) for name in names]
        self.scope.update(zip(targets, made, strict=True))
        self.write(targets, code)
        return [computed(self, target, trial) for target, trial in zip(targets, made, strict=True)]

    def number(self, code: str, name: str) -> Part:
        """A variable for a whole number that an expression makes."""
        made = self.run(code)
        if isinstance(made, int) and not isinstance(made, bool):
            return int(made)
        target = self.names.fresh(name)
        self.scope[target] = made
        self.write([target], code)
        return Size(target, made)

    def variable(self, name: str, trial: torch.Tensor) -> Value:
        """An argument of a function that is being written, which is like a tensor outside of it."""
        target = self.names.fresh(name)
        self.scope[target] = trial
        return computed(self, target, trial)

    def unsure(self, trial: torch.Tensor, sure: Sequence[bool]) -> torch.Tensor:
        """A trial tensor of which some sizes show only when the module runs."""
        if all(sure):
            return trial
        sizes = [
            size if each else self._fake.shape_env.create_unbacked_symint()
            for size, each in zip(trial.shape, sure, strict=True)
        ]
        with self.mode():
            return trial.new_empty(sizes)

    def size_code(self, size: Any) -> str | None:
        """The code of a size of something inside a function, by what has it outside of it; None where nothing has."""
        expression = size.node.expr
        if axis := self._symbols.get(expression):
            return self._axis_code[axis]
        outside = {target for line in self.lines if isinstance(line, Line) for target in line.targets}
        for name in [*self.inputs, *sorted(outside)]:
            for at, each in enumerate(getattr(self.scope[name], "shape", ())):
                if not isinstance(each, int) and each.node.expr == expression:
                    return f"{name}.shape[{at}]"
        return None

    def write(self, targets: Sequence[str], code: str) -> None:
        """Keep a statement."""
        self.lines.append(Line(tuple(targets), code, self.origin))

    # Values

    def hold(self, value: Value) -> tuple[str, torch.Tensor]:
        """The attribute that holds a known value, and its trial. The same array is held once."""
        array = value.known_array
        if id(array) not in self._held:
            name = self.attributes.fresh(value.name or "constant", "weight")
            self.weights[name] = array
            trial = self.run(f"torch.empty({array.shape}, dtype=torch.{array.dtype.name})")
            setattr(self._module, name, trial)
            self._held[id(array)] = (array, f"self.{name}", trial)
        return self._held[id(array)][1:]

    def stack(self, value: Value) -> tuple[str, torch.Tensor]:
        """A variable for sizes as a tensor."""
        if value.parts is None:
            raise ValueError("a value that is neither known, nor of sizes, nor computed")
        parts = [self.counted(part) for part in value.parts.reshape(-1)]
        inner = f"{parts[0]}" if not value.rank else tupled([*map(str, parts)])
        helper = "size_tensor" if not value.rank else "sizes_tensor"
        shaped = f".reshape{value.shape}" if value.rank > 1 else ""
        made = self.let(f"{helper}({inner}, torch.{value.dtype}{self.device}){shaped}", "sizes")
        return str(made), self.scope[str(made)]

    # Sizes

    def part(self, code: str, trial: Any) -> Part:
        """A size, or a yes or no about some, by the shortest name that it has; known where every size that the
        signature allows makes the same of it."""
        import torch

        if isinstance(trial, int):
            return trial
        expression = trial.node.expr
        low, high = self._range(expression)
        if low == high:
            return bool(low) if isinstance(trial, torch.SymBool) else int(low)
        axis = self._symbols.get(expression)
        return Size(code if axis is None else self._axis_code[axis], trial)

    def _range(self, expression: Any) -> tuple[Any, Any]:
        """The least and the most that an expression of sizes can be."""
        found = private_torch.bound_sympy(expression, self._ranges)
        return found.lower, found.upper

    def at_least(self, part: Part, number: int) -> bool:
        """Whether a size can be no smaller number."""
        return bool((self._range(part.trial.node.expr)[0] if isinstance(part, Size) else part) >= number)

    def is_multiple(self, a: Part, b: Part) -> bool:
        """Whether a size is seen to be a multiple of another, as x - x % b is: divided, whatever its sign, it is the
        same in every way of rounding."""
        if not isinstance(a, Size):
            return isinstance(b, int) and a % b == 0
        whole, by = a.trial.node.expr, _trial(b)
        rests = (
            each
            for each in whole.atoms(private_torch.Mod, private_torch.PythonMod)
            if each.args[1] == getattr(by, "node", by)
        )
        return any((whole + rest - rest.args[0]).expand() == 0 for rest in rests)

    def same(self, a: Part, b: Part) -> bool:
        """Whether two sizes are one at every size that the signature allows."""
        return self.combine("==", a, b) is True

    def combine(self, sign: str, a: Part, b: Part) -> Part:
        """A + b, a // b (towards minus infinity), a % b (as Python has it), a == b and so on, the max or the min."""
        trials = [_trial(each) for each in (a, b)]
        if isinstance(a, int) and (a, sign) in ((0, "+"), (1, "*")):
            return b
        if isinstance(b, int) and (sign, b) in (("+", 0), ("-", 0), ("*", 1), ("//", 1)):
            return a
        if sign in ("max", "min"):
            import torch

            for low, high in ((a, b), (b, a)):
                if self.combine("<=", low, high) is True:
                    return high if sign == "max" else low
            return self.part(f"torch.sym_{sign}({a}, {b})", getattr(torch, f"sym_{sign}")(*trials))
        return self.part(f"{atom(a)} {sign} {atom(b)}", _OPERATORS[sign](*trials))

    def negated(self, condition: Part) -> Part:
        """The other answer of yes and no."""
        import torch

        if isinstance(condition, int):
            return not condition
        opposite: Callable[[Any], Any] = torch.sym_not
        return self.part(f"torch.sym_not({condition})", opposite(condition.trial))

    def chosen(self, condition: Part, a: Part, b: Part) -> Part:
        """The first of two sizes where the condition holds, else the second."""
        if isinstance(condition, int):
            return a if condition else b
        if self.same(a, b) or _meet(condition, a, b):
            return b
        self.helpers.add("either")
        trial = functions()["either"](condition.trial, _trial(a), _trial(b))
        return self.part(f"either({condition}, {a}, {b})", trial)

    def counted(self, part: Part) -> Part:
        """A size as it is, and of yes and no 1 and 0."""
        import torch

        if isinstance(part, Size) and isinstance(part.trial, torch.SymBool):
            return self.chosen(part, 1, 0)
        return part if isinstance(part, Size) else int(part)

    def product(self, parts: Sequence[Part]) -> Part:
        """The product of sizes."""
        answer: Part = 1
        for part in parts:
            answer = self.combine("*", answer, part)
        return answer


def _allowed(bounds: Bounds) -> Any:
    """The sizes of an axis as torch writes them."""
    return private_torch.ValueRanges(bounds.low, private_torch.int_oo if bounds.high is None else bounds.high)


def _trial(part: Part) -> Any:
    return part.trial if isinstance(part, Size) else part


def _meet(condition: Size, a: Part, b: Part) -> bool:
    """Whether a condition is that a size is one number, for which both sizes are one: then b is right either way."""
    import sympy  # type: ignore[import-untyped]

    asked = condition.trial.node.expr
    if not isinstance(asked, sympy.Eq) or not asked.lhs.is_Symbol or not asked.rhs.is_number:
        return False
    first, second = (each.trial.node.expr if isinstance(each, Size) else sympy.Integer(each) for each in (a, b))
    return bool(first.subs(asked.lhs, asked.rhs) == second.subs(asked.lhs, asked.rhs))


class Now(Page):
    """Runs what it is given at once, on real tensors."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    @contextmanager
    def mode(self) -> Iterator[None]:
        """Real tensors need none."""
        yield

    def hold(self, value: Value) -> tuple[str, torch.Tensor]:
        """A variable with the array."""
        name = self.names.fresh("known")
        self.scope[name] = torch_tensor(value.known_array)
        return name, self.scope[name]
