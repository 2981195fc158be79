"""Arithmetic, comparisons, logic, bits, and choices by them, element by element."""

from __future__ import annotations

from functools import reduce

from ....onnx_graph.semantics.former_attributes import clip_bounds
from ...size_arithmetic import COMPARISONS
from ...values import Expression
from ...writers import BOOL, FLOATS, HELD, INTEGERS, NUMBERS, ORDINARY, CodegenContext, OutputCode, write_as, writes

_CALLED_ALIKE = (  # in PyTorch, but for the case; Round takes halves to even, as ONNX has it
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log",
    "Reciprocal", "Round", "Sigmoid", "Sin", "Sinh", "Sqrt", "Tan", "Tanh",
)  # fmt: skip
for _name in _CALLED_ALIKE:
    write_as(_name, f"torch.{_name.lower()}({{0}})", since=6, T=NUMBERS if _name == "Abs" else FLOATS)

_LOGICAL = {"And": "&", "Or": "|", "Xor": "^", "BitwiseAnd": "&", "BitwiseOr": "|", "BitwiseXor": "^"}
for _name, _sign in _LOGICAL.items():
    write_as(_name, f"{{0}} {_sign} {{1}}", since=7, T=INTEGERS if _name.startswith("Bitwise") else BOOL)

write_as("Not", "~{0}", since=1, T=BOOL)
write_as("BitwiseNot", "~{0}", since=18, T=INTEGERS)
write_as("Neg", "-{0}", since=6, T=NUMBERS)
write_as("IsNaN", "torch.isnan({0})", since=9, T1=FLOATS)


@writes("Sign", since=9, T=NUMBERS)
def sign(op: CodegenContext) -> OutputCode:
    """Write Sign: -1, 0 or 1; NaN stays NaN, of which torch.sign makes 0."""
    x = op.value(0)
    return f"torch.where(torch.isnan({x}), {x}, torch.sign({x}))" if x.dtype in FLOATS else f"torch.sign({x})"


def pair(a: Expression, b: Expression) -> tuple[str, str]:
    """Return two operands: one of them as a literal where it is a known number that adds no axes to the other."""
    if b.scalar is not None and b.rank <= a.rank:
        return f"{a}", b.scalar
    if a.scalar is not None and a.rank <= b.rank:
        return a.scalar, f"{b}"
    return f"{a}", f"{b}"


def write_binary(name: str, sign: str, dtypes: frozenset[str]) -> None:
    """Register an operator on two tensors for which Python has a sign."""

    @writes(name, since=7, T=dtypes)
    def written(op: CodegenContext) -> OutputCode:
        return f" {sign} ".join(pair(op.value(0), op.value(1)))


for _name, _sign in {"Add": "+", "Sub": "-", "Mul": "*"}.items():
    write_binary(_name, _sign, NUMBERS)
for _name, _sign in COMPARISONS.items():
    write_binary(_name, _sign, ORDINARY if _name == "Equal" else NUMBERS)


@writes("Div", since=7, T=NUMBERS)
def div(op: CodegenContext) -> OutputCode:
    """Write a / b; of integers cut towards zero."""
    a, b = op.value(0), op.value(1)
    if a.dtype in FLOATS:
        return " / ".join(pair(a, b))
    return f'torch.div({a}, {b}, rounding_mode="trunc")'


@writes("Mod", since=28, until=28, T=NUMBERS)
def mod(op: CodegenContext) -> OutputCode:
    """Write a - n b: with the divisor's sign, or with fmod=1 the dividend's."""
    return f"torch.{'fmod' if op.flag('fmod') else 'remainder'}({op.value(0)}, {op.value(1)})"


@writes("Mod", since=10, T=NUMBERS)
def mod_before_28(op: CodegenContext) -> OutputCode:
    """Write Mod as the newer wording, which defines fmod=0 for floats too."""
    if op.value(0).dtype in FLOATS and not op.flag("fmod"):
        op.refuse("fmod=0 is defined for integers only", fix="export the model with fmod=1")
    return mod(op)


@writes("Pow", since=7, T=FLOATS | {"int32", "int64"}, T1=NUMBERS)
def power(op: CodegenContext) -> OutputCode:
    """Write a ** b, in the dtype of a."""
    a, b = op.value(0), op.value(1)
    if a.dtype in INTEGERS:
        return f"whole_power({a}, {b})" if b.dtype in FLOATS else f"torch.pow({a}, {_as(b, a.dtype)})"
    if b.scalar is not None and b.rank <= a.rank:
        number = float(b.scalar) if b.dtype != "float32" else float(b.array.item())  # type: ignore[union-attr]
        return f"{a} ** {int(number) if number == int(number) else number!r}" if number >= 0 else f"{a} ** ({number!r})"
    return f"torch.pow({a}, {_as(b, a.dtype)})" if b.dtype in FLOATS or a.dtype != b.dtype else f"torch.pow({a}, {b})"


def _as(value: Expression, dtype: str) -> str:
    return f"{value}" if value.dtype == dtype else f"{value}.to(torch.{dtype})"


@writes("Max", "Min", since=6, T=NUMBERS)
def extreme(op: CodegenContext) -> OutputCode:
    """Write Max or Min over all inputs."""
    function = {"Max": "maximum", "Min": "minimum"}[op.op_type]
    return reduce(lambda a, b: f"torch.{function}({a}, {b})", map(str, op.values()))


@writes("Sum", "Mean", since=6, T=FLOATS)
def sum_or_mean(op: CodegenContext) -> OutputCode:
    """Write the sum or the mean of all inputs."""
    total = " + ".join(map(str, op.values()))
    return total if op.op_type == "Sum" else f"({total}) / {len(op.values())}"


@writes("Clip", since=6, T=NUMBERS)
def clip(op: CodegenContext) -> OutputCode:
    """Write Clip into min .. max; where min > max everything becomes max."""
    low, high = clip_bounds(op)
    x, bounds = op.value(0), {name: it for name, it in (("min", low), ("max", high)) if it is not None}
    tensors = any(it.scalar is None for it in bounds.values())  # torch.clamp takes two tensors or two numbers
    codes = {name: f"{it}" if tensors else it.scalar for name, it in bounds.items()}
    if not codes:
        return x
    if codes == {"min": "0.0"}:
        return f"torch.relu({x})"
    return f"torch.clamp({x}, {', '.join(f'{name}={code}' for name, code in codes.items())})"


@writes("IsInf", since=10, T1=FLOATS)
def is_infinite(op: CodegenContext) -> OutputCode:
    """Write IsInf, of the signs that are asked about."""
    x, above, below = op.value(0), op.flag("detect_positive", True), op.flag("detect_negative", True)
    if above and below:
        return f"torch.isinf({x})"
    if not above and not below:
        return f"torch.zeros_like({x}, dtype=torch.bool)"
    return f"torch.{'isposinf' if above else 'isneginf'}({x})"


@writes("Identity", since=1, T=HELD, V=HELD)
@writes("OptionalGetElement", since=15, until=28, folds=False, O=HELD)
def identity(op: CodegenContext) -> OutputCode:
    """Write the input itself: an optional value is what it holds."""
    return op.anything(0) or op.value(0)


@writes("BitShift", since=11, T=INTEGERS)
def shifted(op: CodegenContext) -> OutputCode:
    """Write BitShift."""
    sign = {"LEFT": "<<", "RIGHT": ">>"}[op.word("direction", "", ("LEFT", "RIGHT"))]
    return f"{op.value(0)} {sign} {op.value(1)}"


@writes("Where", since=9)
def where(op: CodegenContext) -> OutputCode:
    """Write Where."""
    condition, x, y = op.value(0), op.value(1), op.value(2)
    if x.rank <= condition.rank and x.scalar is not None and y.scalar is None:
        return f"torch.where({condition}, {x.scalar}, {y})"
    if y.rank <= condition.rank and y.scalar is not None and x.scalar is None:
        return f"torch.where({condition}, {x}, {y.scalar})"
    return f"torch.where({condition}, {x}, {y})"
