"""Check of the program in a .pt2 file, as JSON, before torch reads it.

The JSON is read by torch's own schema (torch._export.serde.schema), strictly: each field has its type, and each text
its grammar (pt2_texts.py), by the class and the field that it stands in. What is not known is refused.
"""

from __future__ import annotations

import enum
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from ...patches import private_torch
from ..allowed_torch_operators import is_allowed, is_foreign
from . import pt2_texts as texts

Check = Callable[[str], None]
_JSON = {dict: "object", list: "list", str: "text", int: "whole number", float: "number", bool: "true or false"}
_OPERATOR = re.compile(r"torch\.ops\.(\w+)\.(\w+)(?:\.(\w+))?", re.ASCII)
_DEVICE = re.compile(r"[a-z]{2,12}(:\d{1,3})?")
# Functions of Python's and torch's that the exporter writes for numbers, and those around vmap.
_FUNCTIONS = frozenset((
    *(f"_operator.{name}" for name in (
        "eq", "ne", "le", "ge", "lt", "gt", "neg", "pos", "mul", "add", "sub", "floordiv", "mod", "pow", "truediv",
        "and_", "or_", "lshift", "rshift", "getitem", "abs", "not_", "xor",
    )),
    *(f"math.{name}" for name in ("trunc", "floor", "ceil", "sqrt")),
    *(f"torch.{name}" for name in (
        "sym_not", "sym_int", "sym_float", "sym_ite", "sym_max", "sym_min", "sym_sqrt", "sym_sum", "_sym_sqrt",
    )),
    *(f"torch.fx.experimental.symbolic_shapes.{name}" for name in ("sym_sqrt", "cast_symbool_to_symint_guardless")),
    *(f"torch._functorch.predispatch.{name}" for name in (
        "_add_batch_dim", "_remove_batch_dim", "_vmap_increment_nesting", "_vmap_decrement_nesting",
        "lazy_load_decompositions",
    )),
))  # fmt: skip
# Operators that call graphs of the program itself.
_HIGHER_ORDER = frozenset((
    "cond", "while_loop", "scan", "map_impl", "associative_scan", "wrap_with_set_grad_enabled", "wrap_with_autocast",
    "invoke_subgraph", "strict_mode", "wrap", "tag_activation_checkpoint", "hints_wrapper", "out_dtype",
    "flex_attention", "auto_functionalized", "auto_functionalized_v2", "wrap_activation_checkpoint",
))  # fmt: skip


class RefusedProgramError(ValueError):
    """A part of a program that is not known to only compute; the text ends the sentence "the program ..."."""


class ForeignOperatorError(ValueError):
    """A call of an operator of a library that is not known, by `space` and `name`."""

    def __init__(self, space: str, name: str) -> None:
        super().__init__(f"{space}::{name}")
        self.space, self.name = space, name


class ProgramCheck:
    """Check of JSON against one of the classes of torch's schema; `trust` lets any operator pass.

    Raises RefusedProgramError, ForeignOperatorError.
    """

    def __init__(self, *, trust: bool = False) -> None:
        self._trust = trust
        self._passed: set[tuple[str, str]] = set()  # texts by their noun; most stand there many times

    def check(self, json: object, schema: str) -> None:
        """Check parsed JSON against the class `schema`."""
        self._check(json, getattr(private_torch.schema, schema), schema)

    def _check(self, value: object, expected: Any, place: str) -> None:
        """Check a value against a type of the schema; `place` is "Class.field"."""
        origin, arguments = typing.get_origin(expected), typing.get_args(expected)
        if origin in (typing.Union, types.UnionType):
            if value is not None:
                self._check(value, next(part for part in arguments if part is not type(None)), place)
        elif origin is list:
            for item in self._typed(value, list, place):
                self._check(item, arguments[0], place)
        elif origin is dict:
            for key, item in self._typed(value, dict, place).items():
                self._check_text(key, f"{place} key")
                self._check(item, arguments[1], place)
        elif is_dataclass(expected):
            self._check_record(value, expected)
        elif expected is str:
            self._check_text(self._typed(value, str, place), place)
        elif isinstance(expected, type) and issubclass(expected, enum.IntEnum):
            self._check_number(value, int, place)
        else:
            self._check_number(value, expected, place)

    def _check_record(self, value: object, expected: Any) -> None:
        """Check an object: of a class that is one of several, it has one field; else fields that the class has."""
        record = self._typed(value, dict, expected.__name__)
        known = _field_types(expected)
        if unknown := record.keys() - known.keys():
            raise RefusedProgramError(f"holds {expected.__name__}.{min(unknown)}, which this torch does not know")
        if hasattr(expected, "create") and len(record) != 1:
            raise RefusedProgramError(f"holds an ambiguous {expected.__name__}")
        for name, item in record.items():
            place = f"{expected.__name__}.{name}"
            if place == "Graph.inputs":
                self._check_inputs(item)
            self._check(item, known[name], place)

    def _check_inputs(self, inputs: object) -> None:
        """Check the texts among a graph's inputs: torch writes them into guards."""
        for row in inputs if isinstance(inputs, list) else ():
            if isinstance(row, dict) and isinstance(row.get("as_string"), str):
                self._hold("the text of an input", row["as_string"], texts.check_words)

    def _typed(self, value: object, expected: Any, place: str) -> Any:
        if type(value) is not expected:
            raise RefusedProgramError(f"holds a {place} that is no {_JSON[expected]}")
        return value

    def _check_number(self, value: object, expected: Any, place: str) -> None:
        """Check a number; JSON of torch writes infinity and NaN as texts."""
        allowed: tuple[object, ...] = (float, int) if expected is float else (expected,)
        if type(value) not in allowed and not (expected is float and value in ("Infinity", "-Infinity", "NaN")):
            raise RefusedProgramError(f"holds a {place} that is no {_JSON[expected]}")

    def _check_text(self, text: str, place: str) -> None:
        if place in ("Node.target", "Argument.as_operator"):
            self._check_operator(text)
        elif place in _TEXTS:
            noun, check = _TEXTS[place]
            self._hold(noun, text, check)
        else:
            raise RefusedProgramError(f"holds {place}, which is not known")

    def _hold(self, noun: str, text: str, check: Check) -> None:
        """Check a text, unless the same has passed as the same noun."""
        if (noun, text) in self._passed:
            return
        try:
            check(text)
            self._passed.add((noun, text))
        except ValueError as error:
            shown = text if len(text) < 80 else f"{text[:80]}..."
            raise RefusedProgramError(f"has {shown!r} as {noun}, and {error}") from error

    def _check_operator(self, target: str) -> None:
        """Check what a node calls: an operator of torch or a known library, or arithmetic of Python."""
        if self._trust and _OPERATOR.fullmatch(target):
            return
        parts = _OPERATOR.fullmatch(target)
        if parts is None:
            if target not in _FUNCTIONS:
                raise RefusedProgramError(f"calls {target[:80]}, which may do more than compute")
            return
        space, name, overload = parts.groups()
        if is_foreign(space) and space != "higher_order":
            raise ForeignOperatorError(space, name)
        allowed = name in _HIGHER_ORDER and overload is None if space == "higher_order" else is_allowed(space, name)
        if not allowed:
            raise RefusedProgramError(f"calls {space}::{name}, which may do more than compute")


@cache
def _field_types(expected: Any) -> Mapping[str, Any]:
    """Return the types of a schema class's fields, without their annotations."""
    hints = typing.get_type_hints(expected, globalns=vars(private_torch.schema))
    return {field.name: hints[field.name] for field in fields(expected)}


def _refuse(_: str) -> None:
    raise ValueError("such objects are not taken")


def _check_device(text: str) -> None:
    if not _DEVICE.fullmatch(text):
        raise ValueError("it is no device")


def _check_optional_name(text: str) -> None:
    if text:
        texts.check_name(text)


_NAME, _NAME_OR_NONE = ("a name", texts.check_name), ("a name", _check_optional_name)
_FREE, _WEIGHT = ("a note", texts.check_free), ("the name of a weight", texts.check_path)
_OBJECT = ("an object of Python or C++", _refuse)
_TEXTS: Mapping[str, tuple[str, Check]] = {
    "SymExpr.expr_str": ("the size of an axis", texts.check_expression),
    "ExportedProgram.guards_code": ("a guard", texts.check_guard),
    "ModuleCallSignature.in_spec": ("the structure of inputs", texts.check_structure),
    "ModuleCallSignature.out_spec": ("the structure of outputs", texts.check_structure),
    "ConstantValue.as_string": ("the text of an input", texts.check_words),
    "ExportedProgram.range_constraints key": ("a symbol", texts.check_symbol),
    "Device.type": ("a device", _check_device),
    **dict.fromkeys((
        "TensorArgument.name", "TokenArgument.name", "SymIntArgument.as_name", "SymFloatArgument.as_name",
        "SymBoolArgument.as_name", "GraphArgument.name", "Graph.tensor_values key", "Graph.sym_int_values key",
        "Graph.sym_float_values key", "Graph.sym_bool_values key", "ModuleCallSignature.forward_arg_names",
        "Argument.as_string_to_argument key", "NamedTupleDef.field_names", "ExportedProgram.verifiers",
        "ExportedProgram.opset_version key",
    ), _NAME),
    **dict.fromkeys(("NamedArgument.name", "InputToConstantInputSpec.name", "Node.name"), _NAME_OR_NONE),
    **dict.fromkeys((
        "InputToParameterSpec.parameter_name", "InputToBufferSpec.buffer_name", "BufferMutationSpec.buffer_name",
        "InputToTensorConstantSpec.tensor_constant_name", "ParameterMutationSpec.parameter_name",
        "GradientToParameterSpec.parameter_name", "GradientToUserInputSpec.user_input_name", "PayloadConfig.config key",
        "UserInputMutationSpec.user_input_name", "ModuleCallEntry.fqn", "PayloadMeta.path_name",
    ), _WEIGHT),
    **dict.fromkeys((
        "Argument.as_string", "Argument.as_strings", "Node.metadata", "Node.metadata key", "GraphModule.metadata",
        "GraphModule.metadata key", "ExportedProgram.torch_version", "GraphModule.treespec_namedtuple_fields key",
    ), _FREE),
    **dict.fromkeys((
        "CustomObjArgument.name", "CustomObjArgument.class_fqn", "Graph.custom_obj_values key",
        "InputToCustomObjSpec.custom_obj_name",
    ), _OBJECT),
}  # fmt: skip
