"""Insertion of casts into ONNX models of torch's older exporter, where PyTorch promotes dtypes implicitly.

The exporter knows no dtypes in compiled source: for `integers * mask` and `math.log(x.shape[1])` it writes operators
with inputs that ONNX refuses. Nodes with fitting inputs are left unchanged.

ONNX Runtime computes nothing in bfloat16 on a CPU. Such a node computes in float32, and each of its results is rounded,
as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from ..lazy_import import onnx

if TYPE_CHECKING:
    from onnx.defs import OpSchema

_FLOAT, _INT64, _BOOL, _DOUBLE, _HALF, _BFLOAT16 = 1, 7, 9, 11, 10, 16  # of onnx.TensorProto
_INTEGERS = (2, 3, 4, 5, 6, 7, 12, 13)
_FLOATS = (_HALF, _BFLOAT16, _FLOAT, _DOUBLE)
_TYPED_BY_FIRST_INPUT = frozenset({"ScatterElements", "ScatterND", "Pad", "Clip", "SequenceInsert", "GatherElements"})
_ROUNDING = frozenset({"Ceil", "Floor", "Round"})  # the identity on integers
_SUMMING = frozenset({"ReduceSum", "CumSum", "ReduceProd"})  # of booleans the result is no boolean

Types: TypeAlias = "dict[str, onnx.TypeProto]"  # the types of all known values


def insert_casts(model: onnx.ModelProto) -> None:
    """Cast the inputs of every node to types that it accepts, as PyTorch promotes them, and declare the new dtypes.

    The rules are those of torch.result_type: a scalar gives way to a tensor of its category (bool, integer, float).
    """
    graph = model.graph
    types: Types = {value.name: value.type for value in graph.input}
    for tensor in graph.initializer:
        types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    opsets = {opset.domain: opset.version for opset in model.opset_import}
    _CastInserter(types, opsets, model.ir_version, count(1)).visit(graph)
    for value in (*graph.output, *graph.value_info):
        _declare_dtype(value, types)


@dataclass
class _CastInserter:
    """Rewriter of one graph. `types`: of the values that it sees; the types of its own values are added."""

    types: Types
    opsets: Mapping[str, int]
    ir_version: int
    numbers: Iterator[int]  # of new names, for the whole model
    nodes: list[onnx.NodeProto] = field(default_factory=list)  # as rewritten

    def inside(self, types: Types) -> _CastInserter:
        """Return a rewriter of a graph inside this one."""
        return replace(self, types=types, nodes=[])

    def visit(self, graph: onnx.GraphProto) -> None:
        """Insert casts into the graph."""
        for node in graph.node:
            if node.op_type == "Loop":
                self._visit_loop(node)
                self.nodes.append(node)
            elif node.op_type == "If":
                self._visit_branches(node)
                self.nodes.append(node)
            else:
                self._visit_node(node)
        del graph.node[:]
        graph.node.extend(self.nodes)

    def _visit_node(self, node: onnx.NodeProto) -> None:
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opsets.get(node.domain, 1), node.domain)
        except onnx.defs.SchemaError:
            self.nodes.append(node)
            return
        before = {name: _dtype_of(self.types[name]) for name in node.input if name in self.types}
        rounded: set[str] = set()
        if all(map(self.types.__contains__, filter(None, node.input))):
            for positions in _input_groups(schema, node):
                if self._unify_inputs(schema, node, positions) == _BFLOAT16:
                    rounded.add(_formal_parameter(schema.inputs, positions[0]).type_str)
        self.nodes.append(node)
        self._infer(schema, node)
        for at, name in enumerate(node.output):
            if name in self.types and _formal_parameter(schema.outputs, at).type_str in rounded:
                node.output[at] = self._round_to_bfloat16(name)
        if node.op_type not in _SUMMING and before and set(before.values()) == {_BOOL}:
            self._back_to_booleans(node)

    def _unify_inputs(self, schema: OpSchema, node: onnx.NodeProto, positions: Sequence[int]) -> int | None:
        """Give inputs of a node, which must have one type, the dtype that PyTorch computes in, and return it."""
        input_types = [self.types[node.input[at]] for at in positions]
        if node.op_type == "Cast" or not all(candidate.HasField("tensor_type") for candidate in input_types):
            return None
        dtype = _dtype_of(input_types[0]) if node.op_type in _TYPED_BY_FIRST_INPUT else _promoted(input_types)
        if dtype is None:
            return None
        if dtype == _BFLOAT16:
            for at in positions:
                self._cast_input(_BFLOAT16, node, at)
                self._cast_input(_FLOAT, node, at)
            return dtype
        allowed = _allowed(schema, positions[0])
        if dtype not in allowed:
            if node.op_type in _ROUNDING:
                node.op_type = "Identity"
                return dtype
            dtype = next((candidate for candidate in _substitutes(dtype, input_types) if candidate in allowed), dtype)
        for at in positions:
            self._cast_input(dtype, node, at)
        return dtype

    def _cast_input(self, dtype: int, node: onnx.NodeProto, at: int) -> None:
        if _dtype_of(self.types[node.input[at]]) != dtype:
            node.input[at] = self._cast(node.input[at], dtype)

    def _infer(self, schema: OpSchema, node: onnx.NodeProto) -> None:
        input_types = {name: self.types[name] for name in node.input if name in self.types}
        if len(input_types) < len({*filter(None, node.input)}):
            return
        opsets = [onnx.helper.make_opsetid(*item) for item in self.opsets.items()]
        with suppress(Exception):  # the types of its results, and what depends on them, stay unknown
            self.types |= onnx.shape_inference.infer_node_outputs(
                schema, node, input_types, opset_imports=opsets, ir_version=self.ir_version
            )

    def _round_to_bfloat16(self, name: str) -> str:
        """Make a value the computed float32 result rounded to bfloat16; return the name of the float32 value."""
        exact = self._unused_name(name)
        self.types[exact] = self.types[name]
        self._append_cast(exact, name, f"{exact}.rounded", _BFLOAT16)
        return exact

    def _back_to_booleans(self, node: onnx.NodeProto) -> None:
        """Cast a result that was computed from booleans in integers: `a + b` and `a * b` are booleans in PyTorch."""
        name = node.output[0]
        if node.op_type not in _LOGICAL_ON_BOOLEANS or name not in self.types or _dtype_of(self.types[name]) != _INT64:
            return
        node.output[0] = self._unused_name(name)
        self.types[node.output[0]] = self.types[name]
        self._append_cast(node.output[0], name, self._unused_name(node.output[0]), _BOOL)

    def _visit_loop(self, node: onnx.NodeProto) -> None:
        """Give every state of a loop, from the beginning, the dtype that the body turns it into."""
        body = next(attribute.g for attribute in node.attribute if attribute.name == "body")
        for _ in range(_MAX_TYPES_OF_STATE):
            inner = self.inside({**self.types, **_body_types(body, node, self.types)})
            inner.visit(body)
            changed = [self._unify_state(node, body, at, inner) for at in range(2, len(node.input))]
            if not any(changed):
                break
        inner.declare(body)
        for value, name in zip(body.output[1:], node.output, strict=True):
            if value.name in inner.types:
                self.types[name] = _without_sizes(inner.types[value.name])

    def _unify_state(self, node: onnx.NodeProto, body: onnx.GraphProto, at: int, inner: _CastInserter) -> bool:
        """Give a state one dtype before the loop and after each step; return whether the one before it changed."""
        first, last = self.types.get(node.input[at]), inner.types.get(body.output[at - 1].name)
        if not (first and last and first.HasField("tensor_type") and last.HasField("tensor_type")):
            return False
        dtype = _promoted([_without_sizes(first), _without_sizes(last)])
        if dtype is None:
            return False
        if _dtype_of(last) != dtype:
            inner.cast_output(body, at - 1, dtype)
        if _dtype_of(first) == dtype:
            return False
        node.input[at] = self._cast(node.input[at], dtype)
        return True

    def _visit_branches(self, node: onnx.NodeProto) -> None:
        branches = [(attribute.g, self.inside(dict(self.types))) for attribute in node.attribute]
        for branch, inner in branches:
            inner.visit(branch)
        for at, name in enumerate(node.output):
            outputs = [inner.types.get(branch.output[at].name) for branch, inner in branches]
            if not all(outputs):
                continue
            dtype = _promoted([_without_sizes(output) for output in outputs if output])
            for branch, inner in branches:
                if dtype is not None and _dtype_of(inner.types[branch.output[at].name]) != dtype:
                    inner.cast_output(branch, at, dtype)
            branch, inner = branches[0]
            self.types[name] = _without_sizes(inner.types[branch.output[at].name])
        for branch, inner in branches:
            inner.declare(branch)

    def cast_output(self, graph: onnx.GraphProto, at: int, dtype: int) -> None:
        """Cast an output of the graph, which has been visited."""
        graph.output[at].name = self._cast(graph.output[at].name, dtype)
        graph.node.append(self.nodes[-1])

    def declare(self, graph: onnx.GraphProto) -> None:
        """Declare the dtypes of the graph's values."""
        for value in (*graph.input, *graph.output, *graph.value_info):
            _declare_dtype(value, self.types)

    def _cast(self, name: str, dtype: int) -> str:
        result = self._unused_name(name)
        self._append_cast(name, result, result, dtype)
        return result

    def _append_cast(self, name: str, result: str, node_name: str, dtype: int) -> None:
        self.nodes.append(onnx.helper.make_node("Cast", [name], [result], node_name, to=dtype))
        cast_type = type(self.types[name])()
        cast_type.CopyFrom(self.types[name])
        cast_type.tensor_type.elem_type = dtype
        self.types[result] = cast_type

    def _unused_name(self, name: str) -> str:
        return f"{name}/cast.{next(self.numbers)}"


_MAX_TYPES_OF_STATE = 3  # one after the other: a boolean, an integer, a float
_LOGICAL_ON_BOOLEANS = frozenset({"Add", "Mul", "Max", "Min", "ReduceMax", "ReduceMin", "Gather", "Expand"})


def _body_types(body: onnx.GraphProto, node: onnx.NodeProto, types: Types) -> Types:
    """Return the types of a loop body's inputs: the step, the condition, and the states."""
    counters = onnx.helper.make_tensor_type_proto(_INT64, []), onnx.helper.make_tensor_type_proto(_BOOL, [])
    states = (_without_sizes(types[name]) if name in types else None for name in node.input[2:])
    typed = zip(body.input, (*counters, *states), strict=True)
    return {value.name: type_ for value, type_ in typed if type_ is not None}


def _input_groups(schema: OpSchema, node: onnx.NodeProto) -> Iterator[list[int]]:
    """Yield the positions of inputs that must have one type, by the type parameters of the specification."""
    groups: dict[str, list[int]] = {}
    for at, name in enumerate(node.input):
        formal = _formal_parameter(schema.inputs, at)
        if name and (formal.is_homogeneous or at < len(schema.inputs)):
            groups.setdefault(formal.type_str, []).append(at)
    if node.op_type == "Pow":
        yield sorted(at for positions in groups.values() for at in positions)
    else:
        constrained = {constraint.type_param_str for constraint in schema.type_constraints}
        yield from (positions for type_str, positions in groups.items() if type_str in constrained)


def _formal_parameter(formals: Sequence[OpSchema.FormalParameter], at: int) -> OpSchema.FormalParameter:
    """Return the specification of an input or output by its position; the last one may be variadic."""
    return formals[min(at, len(formals) - 1)]


def _allowed(schema: OpSchema, at: int) -> set[int]:
    """Return the dtypes that an input may have."""
    formal = _formal_parameter(schema.inputs, at)
    known = {*onnx.TensorProto.DataType.keys()}
    names = (name.removeprefix("tensor(").removesuffix(")").upper() for name in formal.types)
    return {onnx.TensorProto.DataType.Value(name) for name in names if name in known}


def _promoted(values: Sequence[onnx.TypeProto]) -> int | None:
    """Return the dtype that PyTorch computes in; None if a value is not numeric."""
    dtypes = [(_dtype_of(value), _rank(value) != 0) for value in values]
    for category in (_FLOATS, _INTEGERS, (_BOOL,)):
        candidates = [(has_axes, category.index(dtype), dtype) for dtype, has_axes in dtypes if dtype in category]
        if candidates:
            return max(candidates)[2] if all(dtype in _NUMBERS for dtype, _ in dtypes) else None
    return None


_NUMBERS = (*_FLOATS, *_INTEGERS, _BOOL)


def _substitutes(dtype: int, values: Sequence[onnx.TypeProto]) -> Sequence[int]:
    """Return dtypes to compute in if an operator refuses this one. Sizes are Python numbers: their logs are float64."""
    if dtype == _BOOL:
        return _INT64, _FLOAT
    if dtype in _INTEGERS:
        return (_DOUBLE, _FLOAT) if all(_rank(value) == 0 for value in values) else (_FLOAT,)
    return (_INT64,)  # an index or a length, of which the exporter has dropped an int(...)


def _dtype_of(value: onnx.TypeProto) -> int:
    return int(value.tensor_type.elem_type)


def _rank(value: onnx.TypeProto) -> int | None:
    return len(value.tensor_type.shape.dim) if value.tensor_type.HasField("shape") else None


def _without_sizes(value: onnx.TypeProto) -> onnx.TypeProto:
    """Return the type with open sizes, which may change with each step of a loop."""
    opened = type(value)()
    opened.CopyFrom(value)
    for size in opened.tensor_type.shape.dim if opened.HasField("tensor_type") else ():
        size.Clear()
    return opened


def _declare_dtype(value: onnx.ValueInfoProto, types: Types) -> None:
    known = types.get(value.name)
    if known and known.HasField("tensor_type") and value.type.HasField("tensor_type"):
        value.type.tensor_type.elem_type = known.tensor_type.elem_type
