"""Types of numbers in an ONNX model of torch's older exporter, which knows none of them in source that was compiled: of
`integers * mask` and `math.log(x.shape[1])` it writes what ONNX has not. Casts are put where PyTorch has them unsaid.

And bfloat16, in which ONNX Runtime computes nothing on a CPU: such a node computes in float32, and each of its results
is rounded, as PyTorch does it.

What fits together is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

_FLOAT, _INT64, _BOOL, _DOUBLE, _HALF, _BFLOAT16 = 1, 7, 9, 11, 10, 16  # onnx.TensorProto's
_INTEGERS = (2, 3, 4, 5, 6, 7, 12, 13)
_FLOATS = (_HALF, _BFLOAT16, _FLOAT, _DOUBLE)
_LIKE_THE_FIRST = frozenset({"ScatterElements", "ScatterND", "Pad", "Clip", "SequenceInsert", "GatherElements"})
_WHOLE = frozenset({"Ceil", "Floor", "Round"})  # of integers the integers themselves
_COUNTING = frozenset({"ReduceSum", "CumSum", "ReduceProd"})  # of booleans: what comes out is none

Types = dict[str, Any]  # onnx.TypeProto of every value that is known


def mend_types(model: onnx.ModelProto) -> None:
    """Let every node have inputs of types that it takes, as PyTorch promotes them; and say what comes out of the whole.

    Rules: torch.result_type. A number without axes gives way to a tensor of its own kind (bool, integer, float).
    """
    from onnx import helper

    graph = model.graph
    types: Types = {value.name: value.type for value in graph.input}
    for each in graph.initializer:
        types[each.name] = helper.make_tensor_type_proto(each.data_type, each.dims)
    mender = _Mender({each.domain: each.version for each in model.opset_import}, model.ir_version)
    mender.mend(graph, types)
    for value in (*graph.output, *graph.value_info):
        _retype(value, types)


class _Mender:
    def __init__(self, opsets: Mapping[str, int], ir_version: int) -> None:
        self._opsets, self._ir_version = dict(opsets), ir_version
        self._made = 0

    def mend(self, graph: onnx.GraphProto, types: Types) -> None:
        """A graph, with the types of what it is given and sees; those of all that it makes are added."""
        nodes = list(graph.node)
        written: list[onnx.NodeProto] = []
        for node in nodes:
            if node.op_type == "Loop":
                self._mend_loop(node, types, written)
            elif node.op_type == "If":
                self._mend_branches(node, types)
            else:
                self._mend_node(node, types, written)
                continue
            written.append(node)
        del graph.node[:]
        graph.node.extend(written)

    def _mend_node(self, node: onnx.NodeProto, types: Types, written: list[onnx.NodeProto]) -> None:
        import onnx

        try:
            schema = onnx.defs.get_schema(node.op_type, self._opsets.get(node.domain, 1), node.domain)
        except onnx.defs.SchemaError:
            written.append(node)
            return
        before = {name: _element(types[name]) for name in node.input if name in types}
        rounded: set[str] = set()
        if all(map(types.__contains__, filter(None, node.input))):
            for places in _groups(schema, node):
                if self._mend_group(schema, node, places, types, written) == _BFLOAT16:
                    rounded.add(_formal(schema.inputs, places[0]).type_str)
        written.append(node)
        self._infer(schema, node, types)
        for at, name in enumerate(node.output):
            if name in types and _formal(schema.outputs, at).type_str in rounded:
                node.output[at] = self._round(name, types, written)
        if node.op_type not in _COUNTING and before and set(before.values()) == {_BOOL}:
            self._back_to_booleans(node, types, written)

    def _mend_group(
        self,
        schema: Any,
        node: onnx.NodeProto,
        places: Sequence[int],
        types: Types,
        written: list[onnx.NodeProto],
    ) -> int | None:
        """Inputs of a node that are to have one type. Returns that which PyTorch computes with."""
        given = [types[node.input[at]] for at in places]
        if node.op_type == "Cast" or not all(each.HasField("tensor_type") for each in given):
            return None
        kind = _element(given[0]) if node.op_type in _LIKE_THE_FIRST else _promoted(given)
        if kind is None:
            return None
        if kind == _BFLOAT16:
            for at in places:
                self._let_be(_BFLOAT16, node, at, types, written)
                self._let_be(_FLOAT, node, at, types, written)
            return kind
        allowed = _allowed(schema, places[0])
        if kind not in allowed:
            if node.op_type in _WHOLE:
                node.op_type = "Identity"
                return kind
            kind = next((each for each in _instead(kind, given) if each in allowed), kind)
        for at in places:
            self._let_be(kind, node, at, types, written)
        return kind

    def _let_be(self, kind: int, node: onnx.NodeProto, at: int, types: Types, written: list[onnx.NodeProto]) -> None:
        if _element(types[node.input[at]]) != kind:
            node.input[at] = self._cast(node.input[at], kind, types, written)

    def _infer(self, schema: Any, node: onnx.NodeProto, types: Types) -> None:
        import onnx

        given = {name: types[name] for name in node.input if name in types}
        if len(given) < len({*filter(None, node.input)}):
            return
        try:
            types.update(
                onnx.shape_inference.infer_node_outputs(
                    schema,
                    node,
                    given,
                    opset_imports=[onnx.helper.make_opsetid(*each) for each in self._opsets.items()],
                    ir_version=self._ir_version,
                )
            )
        except Exception:  # noqa: BLE001  (what its types are stays unknown, and so does what follows)
            return

    def _round(self, name: str, types: Types, written: list[onnx.NodeProto]) -> str:
        """Let a value be the float32 one that is computed, rounded to bfloat16. Returns the name of that one."""
        from onnx import helper

        made = self._name(name)
        types[made] = types[name]
        written.append(helper.make_node("Cast", [made], [name], f"{made}.rounded", to=_BFLOAT16))
        types[name] = type(types[made])()
        types[name].CopyFrom(types[made])
        types[name].tensor_type.elem_type = _BFLOAT16
        return made

    def _back_to_booleans(self, node: onnx.NodeProto, types: Types, written: list[onnx.NodeProto]) -> None:
        """What was computed of nothing but booleans, in integers: `a + b` and `a * b` are booleans in PyTorch."""
        name = node.output[0]
        if node.op_type not in _LOGICAL or name not in types or _element(types[name]) != _INT64:
            return
        node.output[0] = self._name(name)
        types[node.output[0]] = types[name]
        made = self._cast(node.output[0], _BOOL, types, written)
        written[-1].output[0] = name
        types[name] = types.pop(made)

    def _mend_loop(self, node: onnx.NodeProto, types: Types, written: list[onnx.NodeProto]) -> None:
        """A state that the body makes another type of has that from the beginning."""
        body = next(each.g for each in node.attribute if each.name == "body")
        inner: Types = {}
        for _ in range(_MOST_TYPES):
            inner = {**types, **_given_to(body, node, types)}
            self.mend(body, inner)
            states = range(2, len(node.input))
            changed = [self._agree(node, body, at, (types, inner), written) for at in states]
            if not any(changed):
                break
        self._say(body, inner)
        for value, name in zip(body.output[1:], node.output, strict=True):
            if value.name in inner:
                types[name] = _open(inner[value.name])

    def _agree(
        self, node: onnx.NodeProto, body: onnx.GraphProto, at: int, known: tuple[Types, Types],
        written: list[onnx.NodeProto],
    ) -> bool:  # fmt: skip
        """Give a state one type before the loop and behind each step of it. Whether it is another one before it now."""
        types, inner = known
        first, last = types.get(node.input[at]), inner.get(body.output[at - 1].name)
        if not (first and last and first.HasField("tensor_type") and last.HasField("tensor_type")):
            return False
        kind = _promoted([_open(first), _open(last)])
        if kind is None:
            return False
        if _element(last) != kind:
            self._cast_output(body, at - 1, kind, inner)
        if _element(first) == kind:
            return False
        node.input[at] = self._cast(node.input[at], kind, types, written)
        return True

    def _mend_branches(self, node: onnx.NodeProto, types: Types) -> None:
        branches = [(each.g, dict(types)) for each in node.attribute]
        for branch, inner in branches:
            self.mend(branch, inner)
        for at, name in enumerate(node.output):
            made = [inner.get(branch.output[at].name) for branch, inner in branches]
            if not all(made):
                continue
            kind = _promoted([_open(each) for each in made])
            for branch, inner in branches:
                if kind is not None and _element(inner[branch.output[at].name]) != kind:
                    self._cast_output(branch, at, kind, inner)
            branch, inner = branches[0]
            types[name] = _open(inner[branch.output[at].name])
        for branch, inner in branches:
            self._say(branch, inner)

    def _cast_output(self, body: onnx.GraphProto, at: int, kind: int, types: Types) -> None:
        written: list[onnx.NodeProto] = []
        body.output[at].name = self._cast(body.output[at].name, kind, types, written)
        body.node.extend(written)

    def _say(self, body: onnx.GraphProto, types: Types) -> None:
        for value in (*body.input, *body.output, *body.value_info):
            _retype(value, types)

    def _cast(self, name: str, kind: int, types: Types, written: list[onnx.NodeProto]) -> str:
        from onnx import helper

        made = self._name(name)
        written.append(helper.make_node("Cast", [name], [made], made, to=kind))
        types[made] = type(types[name])()
        types[made].CopyFrom(types[name])
        types[made].tensor_type.elem_type = kind
        return made

    def _name(self, name: str) -> str:
        self._made += 1
        return f"{name}/cast.{self._made}"


_MOST_TYPES = 3  # that a state can have one after the other: a boolean, an integer, a float
_LOGICAL = frozenset({"Add", "Mul", "Max", "Min", "ReduceMax", "ReduceMin", "Gather", "Expand"})


def _given_to(body: onnx.GraphProto, node: onnx.NodeProto, types: Types) -> Types:
    """What the body of a loop begins with: the step, whether it goes on, and the states."""
    from onnx import helper

    numbers = helper.make_tensor_type_proto(_INT64, []), helper.make_tensor_type_proto(_BOOL, [])
    states = (_open(types[name]) if name in types else None for name in node.input[2:])
    made = zip(body.input, (*numbers, *states), strict=True)
    return {value.name: kind for value, kind in made if kind is not None}


def _groups(schema: Any, node: onnx.NodeProto) -> Iterator[list[int]]:
    """The places of a node's inputs that are to have one type, by the type's name in the specification."""
    found: dict[str, list[int]] = {}
    for at, name in enumerate(node.input):
        formal = _formal(schema.inputs, at)
        if name and (formal.is_homogeneous or at < len(schema.inputs)):
            found.setdefault(formal.type_str, []).append(at)
    if node.op_type == "Pow":
        yield sorted(at for places in found.values() for at in places)
    else:
        named = {each.type_param_str for each in schema.type_constraints}
        yield from (places for kind, places in found.items() if kind in named)


def _formal(formals: Sequence[Any], at: int) -> Any:
    """What the specification says of an input or output by its place; the last one may stand for many."""
    return formals[min(at, len(formals) - 1)]


def _allowed(schema: Any, at: int) -> set[int]:
    """Types of elements that an input may have."""
    import onnx

    formal = _formal(schema.inputs, at)
    known = {*onnx.TensorProto.DataType.keys()}
    names = (each.removeprefix("tensor(").removesuffix(")").upper() for each in formal.types)
    return {onnx.TensorProto.DataType.Value(name) for name in names if name in known}


def _promoted(given: Sequence[Any]) -> int | None:
    """The type that PyTorch computes with; None where one is none of numbers."""
    kinds = [(_element(each), _rank(each) != 0) for each in given]
    for known in (_FLOATS, _INTEGERS, (_BOOL,)):
        mine = [(has_axes, known.index(kind), kind) for kind, has_axes in kinds if kind in known]
        if mine:
            return max(mine)[2] if all(kind in _NUMBERS for kind, _ in kinds) else None
    return None


_NUMBERS = (*_FLOATS, *_INTEGERS, _BOOL)


def _instead(kind: int, given: Sequence[Any]) -> Sequence[int]:
    """Types to compute with where an operator does not take this one. Sizes are numbers of Python's, whose logs are of
    64 bits."""
    if kind == _BOOL:
        return _INT64, _FLOAT
    if kind in _INTEGERS:
        return (_DOUBLE, _FLOAT) if all(_rank(each) == 0 for each in given) else (_FLOAT,)
    return (_INT64,)  # a place or a length, of which the exporter has dropped an int(...)


def _element(value: Any) -> int:
    return int(value.tensor_type.elem_type)


def _rank(value: Any) -> int | None:
    return len(value.tensor_type.shape.dim) if value.tensor_type.HasField("shape") else None


def _open(value: Any) -> Any:
    """A type of any sizes: each step of a loop may have others."""
    made = type(value)()
    made.CopyFrom(value)
    for size in made.tensor_type.shape.dim if made.HasField("tensor_type") else ():
        size.Clear()
    return made


def _retype(value: onnx.ValueInfoProto, types: Mapping[str, Any]) -> None:
    known = types.get(value.name)
    if known is None:
        return
    if known.HasField("tensor_type") and value.type.HasField("tensor_type"):
        value.type.tensor_type.elem_type = known.tensor_type.elem_type
