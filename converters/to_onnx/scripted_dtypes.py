"""Insertion of casts into ONNX models of torch's older exporter, where PyTorch promotes dtypes implicitly.

The exporter knows no dtypes in compiled source: for `integers * mask` and `math.log(x.shape[1])` it writes operators
with inputs that ONNX refuses. Nodes with fitting inputs are left unchanged.

ONNX Runtime computes nothing in bfloat16 on a CPU. Such a node computes in float32, and each of its results is rounded,
as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import onnx
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
    from onnx import helper

    graph = model.graph
    types: Types = {value.name: value.type for value in graph.input}
    for tensor in graph.initializer:
        types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    inserter = _CastInserter({opset.domain: opset.version for opset in model.opset_import}, model.ir_version)
    inserter.visit_graph(graph, types)
    for value in (*graph.output, *graph.value_info):
        _declare_dtype(value, types)


class _CastInserter:
    def __init__(self, opsets: Mapping[str, int], ir_version: int) -> None:
        self._opsets, self._ir_version = dict(opsets), ir_version
        self._count = 0

    def visit_graph(self, graph: onnx.GraphProto, types: Types) -> None:
        """Insert casts into a graph. `types` knows the values that it sees; the types of its own values are added."""
        nodes = list(graph.node)
        output_nodes: list[onnx.NodeProto] = []
        for node in nodes:
            if node.op_type == "Loop":
                self._visit_loop(node, types, output_nodes)
            elif node.op_type == "If":
                self._visit_branches(node, types)
            else:
                self._visit_node(node, types, output_nodes)
                continue
            output_nodes.append(node)
        del graph.node[:]
        graph.node.extend(output_nodes)

    def _visit_node(self, node: onnx.NodeProto, types: Types, output_nodes: list[onnx.NodeProto]) -> None:
        import onnx

        try:
            schema = onnx.defs.get_schema(node.op_type, self._opsets.get(node.domain, 1), node.domain)
        except onnx.defs.SchemaError:
            output_nodes.append(node)
            return
        before = {name: _dtype_of(types[name]) for name in node.input if name in types}
        rounded: set[str] = set()
        if all(map(types.__contains__, filter(None, node.input))):
            for positions in _input_groups(schema, node):
                if self._unify_inputs(schema, node, positions, types, output_nodes) == _BFLOAT16:
                    rounded.add(_formal_parameter(schema.inputs, positions[0]).type_str)
        output_nodes.append(node)
        self._infer(schema, node, types)
        for at, name in enumerate(node.output):
            if name in types and _formal_parameter(schema.outputs, at).type_str in rounded:
                node.output[at] = self._round_to_bfloat16(name, types, output_nodes)
        if node.op_type not in _SUMMING and before and set(before.values()) == {_BOOL}:
            self._back_to_booleans(node, types, output_nodes)

    def _unify_inputs(
        self,
        schema: OpSchema,
        node: onnx.NodeProto,
        positions: Sequence[int],
        types: Types,
        output_nodes: list[onnx.NodeProto],
    ) -> int | None:
        """Give inputs of a node, which must have one type, the dtype that PyTorch computes in, and return it."""
        input_types = [types[node.input[at]] for at in positions]
        if node.op_type == "Cast" or not all(candidate.HasField("tensor_type") for candidate in input_types):
            return None
        dtype = _dtype_of(input_types[0]) if node.op_type in _TYPED_BY_FIRST_INPUT else _promoted(input_types)
        if dtype is None:
            return None
        if dtype == _BFLOAT16:
            for at in positions:
                self._cast_input(_BFLOAT16, node, at, types, output_nodes)
                self._cast_input(_FLOAT, node, at, types, output_nodes)
            return dtype
        allowed = _allowed(schema, positions[0])
        if dtype not in allowed:
            if node.op_type in _ROUNDING:
                node.op_type = "Identity"
                return dtype
            dtype = next((candidate for candidate in _substitutes(dtype, input_types) if candidate in allowed), dtype)
        for at in positions:
            self._cast_input(dtype, node, at, types, output_nodes)
        return dtype

    def _cast_input(
        self, dtype: int, node: onnx.NodeProto, at: int, types: Types, output_nodes: list[onnx.NodeProto]
    ) -> None:
        if _dtype_of(types[node.input[at]]) != dtype:
            node.input[at] = self._cast(node.input[at], dtype, types, output_nodes)

    def _infer(self, schema: OpSchema, node: onnx.NodeProto, types: Types) -> None:
        import onnx

        input_types = {name: types[name] for name in node.input if name in types}
        if len(input_types) < len({*filter(None, node.input)}):
            return
        try:
            types.update(
                onnx.shape_inference.infer_node_outputs(
                    schema,
                    node,
                    input_types,
                    opset_imports=[onnx.helper.make_opsetid(*item) for item in self._opsets.items()],
                    ir_version=self._ir_version,
                )
            )
        except Exception:  # noqa: BLE001  (the types of its results, and what depends on them, stay unknown)
            return

    def _round_to_bfloat16(self, name: str, types: Types, output_nodes: list[onnx.NodeProto]) -> str:
        """Make a value the computed float32 result rounded to bfloat16; return the name of the float32 value."""
        from onnx import helper

        exact = self._unused_name(name)
        types[exact] = types[name]
        output_nodes.append(helper.make_node("Cast", [exact], [name], f"{exact}.rounded", to=_BFLOAT16))
        types[name] = type(types[exact])()
        types[name].CopyFrom(types[exact])
        types[name].tensor_type.elem_type = _BFLOAT16
        return exact

    def _back_to_booleans(self, node: onnx.NodeProto, types: Types, output_nodes: list[onnx.NodeProto]) -> None:
        """Cast a result that was computed from booleans in integers: `a + b` and `a * b` are booleans in PyTorch."""
        name = node.output[0]
        if node.op_type not in _LOGICAL_ON_BOOLEANS or name not in types or _dtype_of(types[name]) != _INT64:
            return
        node.output[0] = self._unused_name(name)
        types[node.output[0]] = types[name]
        as_bool = self._cast(node.output[0], _BOOL, types, output_nodes)
        output_nodes[-1].output[0] = name
        types[name] = types.pop(as_bool)

    def _visit_loop(self, node: onnx.NodeProto, types: Types, output_nodes: list[onnx.NodeProto]) -> None:
        """Give every state of a loop, from the beginning, the dtype that the body turns it into."""
        body = next(attribute.g for attribute in node.attribute if attribute.name == "body")
        inner: Types = {}
        for _ in range(_MAX_TYPES_OF_STATE):
            inner = {**types, **_body_types(body, node, types)}
            self.visit_graph(body, inner)
            states = range(2, len(node.input))
            changed = [self._unify_state(node, body, at, (types, inner), output_nodes) for at in states]
            if not any(changed):
                break
        self._declare_dtypes(body, inner)
        for value, name in zip(body.output[1:], node.output, strict=True):
            if value.name in inner:
                types[name] = _without_sizes(inner[value.name])

    def _unify_state(
        self, node: onnx.NodeProto, body: onnx.GraphProto, at: int, known: tuple[Types, Types],
        output_nodes: list[onnx.NodeProto],
    ) -> bool:  # fmt: skip
        """Give a state one dtype before the loop and after each step; return whether the one before it changed."""
        types, inner = known
        first, last = types.get(node.input[at]), inner.get(body.output[at - 1].name)
        if not (first and last and first.HasField("tensor_type") and last.HasField("tensor_type")):
            return False
        dtype = _promoted([_without_sizes(first), _without_sizes(last)])
        if dtype is None:
            return False
        if _dtype_of(last) != dtype:
            self._cast_output(body, at - 1, dtype, inner)
        if _dtype_of(first) == dtype:
            return False
        node.input[at] = self._cast(node.input[at], dtype, types, output_nodes)
        return True

    def _visit_branches(self, node: onnx.NodeProto, types: Types) -> None:
        branches = [(attribute.g, dict(types)) for attribute in node.attribute]
        for branch, inner in branches:
            self.visit_graph(branch, inner)
        for at, name in enumerate(node.output):
            outputs = [inner.get(branch.output[at].name) for branch, inner in branches]
            if not all(outputs):
                continue
            dtype = _promoted([_without_sizes(output) for output in outputs if output])
            for branch, inner in branches:
                if dtype is not None and _dtype_of(inner[branch.output[at].name]) != dtype:
                    self._cast_output(branch, at, dtype, inner)
            branch, inner = branches[0]
            types[name] = _without_sizes(inner[branch.output[at].name])
        for branch, inner in branches:
            self._declare_dtypes(branch, inner)

    def _cast_output(self, body: onnx.GraphProto, at: int, dtype: int, types: Types) -> None:
        output_nodes: list[onnx.NodeProto] = []
        body.output[at].name = self._cast(body.output[at].name, dtype, types, output_nodes)
        body.node.extend(output_nodes)

    def _declare_dtypes(self, body: onnx.GraphProto, types: Types) -> None:
        for value in (*body.input, *body.output, *body.value_info):
            _declare_dtype(value, types)

    def _cast(self, name: str, dtype: int, types: Types, output_nodes: list[onnx.NodeProto]) -> str:
        from onnx import helper

        result = self._unused_name(name)
        output_nodes.append(helper.make_node("Cast", [name], [result], result, to=dtype))
        types[result] = type(types[name])()
        types[result].CopyFrom(types[name])
        types[result].tensor_type.elem_type = dtype
        return result

    def _unused_name(self, name: str) -> str:
        self._count += 1
        return f"{name}/cast.{self._count}"


_MAX_TYPES_OF_STATE = 3  # one after the other: a boolean, an integer, a float
_LOGICAL_ON_BOOLEANS = frozenset({"Add", "Mul", "Max", "Min", "ReduceMax", "ReduceMin", "Gather", "Expand"})


def _body_types(body: onnx.GraphProto, node: onnx.NodeProto, types: Types) -> Types:
    """Return the types of a loop body's inputs: the step, the condition, and the states."""
    from onnx import helper

    counters = helper.make_tensor_type_proto(_INT64, []), helper.make_tensor_type_proto(_BOOL, [])
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
    import onnx

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
    if known is None:
        return
    if known.HasField("tensor_type") and value.type.HasField("tensor_type"):
        value.type.tensor_type.elem_type = known.tensor_type.elem_type
