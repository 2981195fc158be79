"""The texts in an exported program that torch evaluates, imports from or writes into code, each with its grammar.

Torch reads the sizes of axes with sympy (`eval`), compiles guards, generates a `forward` from the names, and imports
modules that the structure of the inputs names. Each function here raises ValueError for a text that is no plain number,
symbol, arithmetic or name.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Iterator

MAX_TEXT = 100_000  # characters of an expression; those of real models have hundreds
MAX_POWER = 64  # of a literal exponent
MAX_POWERS = 3  # inside one another
MAX_DIGITS = 40  # of an integer
MAX_SYMBOL = 10**6  # number of a symbol: torch counts up to it

_CHARACTERS = re.compile(r"[\w\s.,()\[\]+\-*/%<>=!&|~'\"]*", re.ASCII)
_WORDS = re.compile(r"[\w \-+./:,@]*")  # that mean nothing inside of quotes
_PATH = re.compile(r"[\w\-+/:@ <>]*(\.[\w\-+/:@ <>]+)*")  # of a weight, as in "layers.0.weight"
_SYMBOL = re.compile(r"[A-Za-z_]\w{0,60}", re.ASCII)  # Symbol('s77')
_BARE_SYMBOL = re.compile(r"[A-Za-z]{1,4}\d{1,9}")
_SYMBOL_NUMBER = re.compile(r"\d+$")
_NUMBER_TEXT = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?(e[+-]?\d{1,3})?|inf|nan)")
_ASSUMPTIONS = frozenset(("positive", "nonnegative", "nonpositive", "negative", "integer", "real", "finite", "nonzero",
                          "zero", "even", "odd", "commutative", "extended_real"))  # fmt: skip
_CONSTANTS = frozenset(("true", "false", "oo", "int_oo", "nan", "pi", "inf"))
# Classes of sympy and torch.utils._sympy.functions.
_SYMPY = """
Symbol Integer Rational Float One Zero NegativeOne Half Infinity NegativeInfinity IntInfinity NegativeIntInfinity
Add Mul Pow Mod Max Min Abs floor ceiling sign sqrt log exp Eq Ne Ge Gt Le Lt Equality Unequality GreaterThan
StrictGreaterThan LessThan StrictLessThan And Or Not Xor ITE Piecewise ExprCondPair FloorDiv ModularIndexing Where
PythonMod CleanDiv CeilToInt FloorToInt CeilDiv LShift RShift PowByNatural FloatPow FloatTrueDiv IntTrueDiv
IsNonOverlappingAndDenseIndicator TruncToFloat TruncToInt RoundToInt RoundDecimal ToFloat Identity
BitwiseFn_bitwise_and BitwiseFn_bitwise_or BitwiseFn_bitwise_xor OpaqueUnaryFn_sqrt OpaqueUnaryFn_cos
OpaqueUnaryFn_cosh OpaqueUnaryFn_sin OpaqueUnaryFn_sinh OpaqueUnaryFn_tan OpaqueUnaryFn_tanh OpaqueUnaryFn_asin
OpaqueUnaryFn_acos OpaqueUnaryFn_atan OpaqueUnaryFn_exp OpaqueUnaryFn_log OpaqueUnaryFn_asinh OpaqueUnaryFn_log2
"""
_FUNCTIONS = frozenset(_SYMPY.split())
_NUMBERS = frozenset(("Integer", "Rational", "Float"))
_POWERS = frozenset(("Pow", "PowByNatural", "FloatPow", "LShift"))
_OPERATORS = (
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod,
    ast.Pow, ast.USub, ast.UAdd, ast.Not, ast.Invert, ast.BitAnd, ast.BitOr, ast.And, ast.Or, ast.Eq, ast.NotEq, ast.Lt,
    ast.LtE, ast.Gt, ast.GtE, ast.Load, ast.Expression,
)  # fmt: skip
_GUARD_FUNCTIONS = frozenset(("max", "min", "abs", "int", "float", "bool", "round", "IsNonOverlappingAndDenseIndicator",
                              "cast_symbool_to_symint_guardless"))  # fmt: skip
_GUARD_MODULES = {
    "math": frozenset(("floor", "ceil", "sqrt", "trunc", "inf", "isnan", "log2", "pow", "fabs")),
    "torch": frozenset(("sym_not", "sym_int", "sym_float", "sym_ite", "sym_max", "sym_min", "sym_sum", "_sym_sqrt")),
}
_OF_TENSORS = frozenset(("size", "stride", "storage_offset", "dim"))
# Containers whose structure torch rebuilds without importing anything.
_CONTAINERS = frozenset((
    "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict",
    "torch.fx.immutable_collections.immutable_list", "torch.fx.immutable_collections.immutable_dict",
))  # fmt: skip


def check_name(text: str) -> None:
    """Check the name of a value, which becomes a variable in generated code."""
    if not text.isidentifier() or keyword.iskeyword(text):
        raise ValueError("it is no name")


def check_words(text: str) -> None:
    """Check a text that is written between quotes in generated code."""
    if not _WORDS.fullmatch(text):
        raise ValueError("it is more than words")


def check_path(text: str) -> None:
    """Check the path of a module or a weight."""
    if not _PATH.fullmatch(text):
        raise ValueError("it is no path of a module")


def check_free(text: str) -> None:
    """Check a text that is only kept, and may come into a comment of generated code."""
    if not text.replace("\n", "").replace("\t", "").isprintable():
        raise ValueError("it holds control characters")


def check_symbol(text: str) -> None:
    """Check the symbol that a range belongs to."""
    number = _SYMBOL_NUMBER.search(text)
    if number and (len(number[0]) > 9 or int(number[0]) > MAX_SYMBOL):
        raise ValueError(f"its number is above {MAX_SYMBOL}")
    check_free(text)


def check_expression(text: str) -> None:
    """Check the size of an axis, as sympy's srepr writes it or as arithmetic."""
    for node in _nodes(text):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS:
                raise ValueError("it calls something")
            _check_arguments(node, node.func.id)
        elif isinstance(node, ast.Name):
            if node.id not in _CONSTANTS | _FUNCTIONS and not _BARE_SYMBOL.fullmatch(node.id):
                raise ValueError(f"{node.id} is no symbol")
        elif isinstance(node, ast.Constant):
            _check_number(node)
        elif not isinstance(node, (*_OPERATORS, ast.keyword)):
            raise ValueError("it is no arithmetic")


def _check_arguments(call: ast.Call, function: str) -> None:
    """Check the texts and keywords of a call: Symbol('s0', integer=True), Float('0.5', precision=53)."""
    for word in call.keywords:
        known = word.arg in _ASSUMPTIONS if function == "Symbol" else (function, word.arg) == ("Float", "precision")
        if not known or not isinstance(word.value, ast.Constant) or not isinstance(word.value.value, bool | int):
            raise ValueError("it has a keyword that is not known")
        if word.arg == "precision" and not 0 <= word.value.value <= 1000:
            raise ValueError("its precision is not that of a number")
    for argument in call.args:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            grammar = {"Symbol": _SYMBOL, "Float": _NUMBER_TEXT}.get(function)
            if grammar is None or not grammar.fullmatch(argument.value):
                raise ValueError("it holds a text")
            argument.value = 0  # it was checked


def check_guard(text: str) -> None:
    """Check a condition on the sizes of the inputs, as in L['x'].size()[0] % 2 == 0."""
    if "\n" in text:
        raise ValueError("it has several lines")
    for node in _nodes(text):
        if isinstance(node, ast.Call):
            _check_guard_call(node)
        elif isinstance(node, ast.Attribute | ast.Name):
            _check_guard_name(node)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                check_words(node.value)
            elif node.value is not None:
                _check_number(node)
        elif not isinstance(node, (*_OPERATORS, ast.Subscript, ast.Is, ast.IsNot)):
            raise ValueError("it is no condition on sizes")


def _check_guard_name(node: ast.Attribute | ast.Name) -> None:
    """Check that a name is the inputs, arithmetic, or a part of an input."""
    if isinstance(node, ast.Name):
        known = node.id in {"L", "inf", "True", "False", *_GUARD_FUNCTIONS, *_GUARD_MODULES}
    elif isinstance(node.value, ast.Name) and node.value.id in _GUARD_MODULES:
        known = node.attr in _GUARD_MODULES[node.value.id]
    else:
        known = not node.attr.startswith("_")
    if not known:
        raise ValueError(f"it asks for {node.id if isinstance(node, ast.Name) else node.attr}")


def _check_guard_call(call: ast.Call) -> None:
    """Check that a call in a guard is arithmetic, or asks a tensor for its sizes."""
    if call.keywords:
        raise ValueError("it calls something by keyword")
    if isinstance(call.func, ast.Name) and call.func.id in _GUARD_FUNCTIONS:
        return
    if isinstance(call.func, ast.Attribute):
        if isinstance(call.func.value, ast.Name) and call.func.value.id in _GUARD_MODULES:
            return  # its attribute is checked as such
        if call.func.attr in _OF_TENSORS and not call.args:
            return
    raise ValueError("it calls something")


def _nodes(text: str) -> Iterator[ast.AST]:
    """Yield the nodes of an expression of Python. Raises ValueError where it is none, or computes too much."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"it has {len(text)} characters, and {MAX_TEXT} are the most")
    if not _CHARACTERS.fullmatch(text):
        raise ValueError("it is no arithmetic")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("it is no expression") from error
    pending: list[tuple[ast.AST, int]] = [(tree, 0)]
    while pending:
        node, powers = pending.pop()
        powers += _check_power(node)
        if powers > MAX_POWERS:
            raise ValueError(f"it has more than {MAX_POWERS} powers inside one another")
        yield node
        pending += ((child, powers) for child in ast.iter_child_nodes(node))


def _check_power(node: ast.AST) -> int:
    """Return 1 for a power, 0 for another node. Raises ValueError if the exponent is not a small number."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        exponent: ast.expr = node.right
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _POWERS:
        if len(node.args) != 2:
            raise ValueError("it has a power of other than two numbers")
        exponent = node.args[1]
    else:
        return 0
    is_number = isinstance(exponent, ast.Call) and isinstance(exponent.func, ast.Name) and exponent.func.id in _NUMBERS
    numbers = exponent.args if is_number and isinstance(exponent, ast.Call) else [exponent]
    for number in numbers:
        literal = number.operand if isinstance(number, ast.UnaryOp) else number
        value = literal.value if isinstance(literal, ast.Constant) else None
        if isinstance(value, str) and _NUMBER_TEXT.fullmatch(value):
            value = float(value)
        if not isinstance(value, int | float) or not abs(value) <= MAX_POWER:
            raise ValueError(f"it has an exponent that is no number up to {MAX_POWER}")
    return 1


def _check_number(node: ast.Constant) -> None:
    value = node.value
    if not isinstance(value, bool | int | float) or (isinstance(value, int) and abs(value) >= 10**MAX_DIGITS):
        raise ValueError("it holds more than numbers")


def check_structure(text: str) -> None:
    """Check the structure of inputs or outputs, which is JSON: plain containers of tensors, with plain keys."""
    try:
        protocol, tree = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError("it is no structure") from error
    pending = [tree]
    while pending:
        node = pending.pop()
        if not isinstance(node, dict) or node.keys() != {"type", "context", "children_spec"} or protocol != 1:
            raise ValueError("it is no structure")
        if not isinstance(node["children_spec"], list):
            raise ValueError("it is no structure")
        if node["type"] is not None:
            _check_container(node["type"], node["context"])
        elif node["context"] is not None or node["children_spec"]:
            raise ValueError("it is no structure")
        pending += node["children_spec"]


def _check_container(kind: object, context: object) -> None:
    if kind not in _CONTAINERS:
        raise ValueError(f"{kind} is no plain container")
    try:
        keys = json.loads(context) if isinstance(context, str) else context
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no structure") from error
    if keys is None:
        return
    if not isinstance(keys, list):
        raise ValueError("its keys are no list")
    for key in keys:
        if isinstance(key, str):
            check_words(key)
        elif not isinstance(key, bool | int | float | None):
            raise ValueError("it has a key that is no text and no number")
