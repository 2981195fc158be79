"""Rewriting of a SavedModel's Case operators (tf.switch_case) as nested Ifs: ONNX and TFLite have no Case.

Case runs the function with its index, and the last function for any other index:

    Case(index, x; f, g, h)  ->  If(index == 0, x, index; f', rest)   with   rest(x, index) = Case(index - 1, x; g, h)

f' is f with the index as another input: an If passes the same inputs to both of its functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
    from tensorflow.core.framework.attr_value_pb2 import NameAttrList
    from tensorflow.core.framework.function_pb2 import FunctionDef
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.framework.node_def_pb2 import NodeDef
    from tensorflow.core.framework.op_def_pb2 import OpDef

    Nodes: TypeAlias = RepeatedCompositeFieldContainer[NodeDef]
    Library: TypeAlias = RepeatedCompositeFieldContainer[FunctionDef]

_CHOICES = {"Case": "If", "StatelessCase": "StatelessIf"}
_INPUT_SHAPES = "_input_shapes"  # attribute of a function whose inputs' shapes are known
INT32, _BOOL = 3, 10  # tensorflow.DataType


def rewrite_cases(graph: GraphDef) -> bool:
    """Rewrite the Cases of a graph and of its functions in place; return whether there were any."""
    library = graph.library.function
    written = [_write_as_if(node, graph.node, library, "{}") for node in _cases(graph.node)]
    for function in library:  # grows meanwhile: a case's remaining functions become a case in a function of their own
        written += [_write_as_if(node, function.node_def, library, "{}:{}:0") for node in _cases(function.node_def)]
    return bool(written)


def _cases(nodes: Nodes) -> list[NodeDef]:
    return [node for node in nodes if node.op in _CHOICES]


def _write_as_if(node: NodeDef, nodes: Nodes, library: Library, result: str) -> str:
    """Turn a case among `nodes` into an If; return its name.

    `result` formats the name of a node's result from the node's name and its operator's name for the result.
    """
    index, passed, control = _inputs(node)
    then, *alternatives = node.attr["branches"].list.func
    otherwise = alternatives[-1] if alternatives else then
    if len(alternatives) > 1:
        then, otherwise = _reference(_with_index(then, library)), _reference(_remaining_case(node, library))
        passed = [*passed, index]
        node.attr["Tin"].list.type.append(INT32)
    zero = int32_constant(nodes, f"{node.name}/zero", 0)
    first = _int32_node(nodes, f"{node.name}/is_first", "Equal", index, result.format(zero, "output"))
    node.input[:] = [result.format(first, "z"), *passed, *control]
    node.op = _CHOICES[node.op]
    node.attr["Tcond"].type = _BOOL
    node.attr["then_branch"].func.CopyFrom(then)
    node.attr["else_branch"].func.CopyFrom(otherwise)
    del node.attr["branches"]
    return str(node.name)


def _inputs(node: NodeDef) -> tuple[str, list[str], list[str]]:
    """Return the index of a case, the inputs that it passes on, and its control inputs."""
    index, *operands = node.input
    return (index, [name for name in operands if name[0] != "^"], [name for name in operands if name[0] == "^"])


def _with_index(branch: NameAttrList, library: Library) -> FunctionDef:
    """Add a function to the library: `branch` with the index as another input."""
    function = library.add()
    function.CopyFrom(next(candidate for candidate in library if candidate.signature.name == branch.name))
    function.signature.name = _unused_name(f"{branch.name}_with_index", library)
    function.signature.input_arg.add(name="transload_index", type=INT32)
    if _INPUT_SHAPES in function.attr:
        function.attr[_INPUT_SHAPES].list.shape.add()  # the empty shape: the index is a scalar
    return function


def _remaining_case(node: NodeDef, library: Library) -> FunctionDef:
    """Add a function to the library: the case without its first function, of the inputs passed on and the index."""
    _, *alternatives = node.attr["branches"].list.func
    function = library.add()
    function.signature.name = _unused_name(f"{alternatives[0].name}_and_others", library)
    passed = _arguments(function.signature.input_arg, "given", node.attr["Tin"].list.type)
    results = _arguments(function.signature.output_arg, "result", node.attr["Tout"].list.type)
    function.signature.input_arg.add(name="index", type=INT32)
    one_name = int32_constant(function.node_def, "one", 1)
    less = _int32_node(function.node_def, "less", "Sub", "index", f"{one_name}:output:0")
    case = function.node_def.add()
    case.CopyFrom(node)
    case.name = "case"
    case.input[:] = [f"{less}:z:0", *passed]
    del case.attr["branches"].list.func[0]
    for at, result in enumerate(results):
        function.ret[result] = f"case:output:{at}"
    return function


def _arguments(side: RepeatedCompositeFieldContainer[OpDef.ArgDef], word: str, kinds: Sequence[int]) -> list[str]:
    """Add arguments to one side of a signature; return their names."""
    for at, kind in enumerate(kinds):
        side.add(name=f"{word}_{at}", type=kind)
    return [argument.name for argument in side]


def int32_constant(nodes: Nodes, name: str, value: int) -> str:
    """Add a constant to the nodes; return its name."""
    constant = nodes.add(name=name, op="Const")
    constant.attr["dtype"].type = constant.attr["value"].tensor.dtype = INT32
    constant.attr["value"].tensor.tensor_shape.SetInParent()
    constant.attr["value"].tensor.int_val.append(value)
    return name


def _int32_node(nodes: Nodes, name: str, operator: str, *inputs: str) -> str:
    nodes.add(name=name, op=operator, input=inputs).attr["T"].type = INT32
    return name


def _unused_name(name: str, library: Library) -> str:
    names = {candidate.signature.name for candidate in library}
    return next(candidate for at in range(len(names) + 1) if (candidate := f"{name}_{at}") not in names)


def _reference(function: FunctionDef) -> NameAttrList:
    from tensorflow.core.framework.attr_value_pb2 import NameAttrList

    return NameAttrList(name=function.signature.name)
