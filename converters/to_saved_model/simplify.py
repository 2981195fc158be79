"""Rewriting of a SavedModel with operators that every converter supports.

Look-ups in a variable become look-ups in its value: tf.gather of a variable is one operator (ResourceGather), which
TensorFlow leaves unchanged in a loop or a branch when it turns variables into constants.

Cases (tf.switch_case), which ONNX and TFLite lack, become nested Ifs. Case runs the function with its index, and the
last function for any other index:

    Case(index, x; f, g, h)  ->  If(index == 0, x, index; f', rest)   with   rest(x, index) = Case(index - 1, x; g, h)

f' is f with the index as another input: an If passes the same inputs to both of its functions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ..lazy_import import tf

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
    from tensorflow.core.framework.function_pb2 import FunctionDef
    from tensorflow.core.framework.op_def_pb2 import OpDef
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    Nodes: TypeAlias = RepeatedCompositeFieldContainer[tf.compat.v1.NodeDef]
    Library: TypeAlias = RepeatedCompositeFieldContainer[FunctionDef]

_LOOKUPS = {"ResourceGather": "GatherV2", "ResourceGatherNd": "GatherNd"}
_CHOICES = {"Case": "If", "StatelessCase": "StatelessIf"}
_INPUT_SHAPES = "_input_shapes"  # attribute of a function whose inputs' shapes are known
_INT32, _BOOL = 3, 10  # tensorflow.DataType


def simplify_operators(model: SavedModel) -> bool:
    """Rewrite a SavedModel in place; return whether anything was changed."""
    graphs = [meta_graph.graph_def for meta_graph in model.meta_graphs]
    changed = [rewrite(graph) for rewrite in (_rewrite_cases, _rewrite_lookups) for graph in graphs]
    return any(changed)


def _rewrite_lookups(graph: tf.compat.v1.GraphDef) -> bool:
    """Rewrite the look-ups in a graph's functions in place; return whether there were any."""
    nodes_of_functions = [function.node_def for function in graph.library.function]
    return bool([_to_gather(node, nodes) for nodes in nodes_of_functions for node in _among(nodes, _LOOKUPS)])


def _to_gather(node: tf.compat.v1.NodeDef, nodes: Nodes) -> str:
    """Turn a look-up in a variable into one in its value, which a new node reads; return the look-up's name."""
    variable, indices, *control = node.input
    read = nodes.add(name=f"{node.name}/read", op="ReadVariableOp", input=[variable])
    read.attr["dtype"].CopyFrom(node.attr["dtype"])
    node.op = _LOOKUPS[node.op]
    axes = []
    if node.op == "GatherV2":
        axis = node.attr["batch_dims"].i if "batch_dims" in node.attr else 0
        axes = [f"{_int32_constant(nodes, f'{node.name}/axis', axis)}:output:0"]
        node.attr["Taxis"].type = _INT32
    node.input[:] = [f"{read.name}:value:0", indices, *axes, *control]
    node.attr["Tparams"].CopyFrom(node.attr["dtype"])
    for attribute in ("dtype", "validate_indices"):
        if attribute in node.attr:
            del node.attr[attribute]
    return str(node.name)


def _rewrite_cases(graph: tf.compat.v1.GraphDef) -> bool:
    """Rewrite the Cases of a graph and of its functions in place; return whether there were any."""
    library = graph.library.function
    written = [_write_as_if(node, graph.node, library, "{}") for node in _among(graph.node, _CHOICES)]
    for function in library:  # grows meanwhile: a case's remaining functions become a case in a function of their own
        nodes = function.node_def
        written += [_write_as_if(node, nodes, library, "{}:{}:0") for node in _among(nodes, _CHOICES)]
    return bool(written)


def _among(nodes: Nodes, operators: Collection[str]) -> list[tf.compat.v1.NodeDef]:
    return [node for node in nodes if node.op in operators]


def _write_as_if(node: tf.compat.v1.NodeDef, nodes: Nodes, library: Library, result: str) -> str:
    """Turn a case among `nodes` into an If; return its name.

    `result` formats the name of a node's result from the node's name and its operator's name for the result.
    """
    index, passed, control = _inputs(node)
    then, *alternatives = node.attr["branches"].list.func
    otherwise = alternatives[-1] if alternatives else then
    if len(alternatives) > 1:
        then, otherwise = _reference(_with_index(then, library)), _reference(_remaining_case(node, library))
        passed = [*passed, index]
        node.attr["Tin"].list.type.append(_INT32)
    zero = _int32_constant(nodes, f"{node.name}/zero", 0)
    first = _int32_node(nodes, f"{node.name}/is_first", "Equal", index, result.format(zero, "output"))
    node.input[:] = [result.format(first, "z"), *passed, *control]
    node.op = _CHOICES[node.op]
    node.attr["Tcond"].type = _BOOL
    node.attr["then_branch"].func.CopyFrom(then)
    node.attr["else_branch"].func.CopyFrom(otherwise)
    del node.attr["branches"]
    return str(node.name)


def _inputs(node: tf.compat.v1.NodeDef) -> tuple[str, list[str], list[str]]:
    """Return the index of a case, the inputs that it passes on, and its control inputs."""
    index, *operands = node.input
    return (index, [name for name in operands if name[0] != "^"], [name for name in operands if name[0] == "^"])


def _with_index(branch: tf.compat.v1.NameAttrList, library: Library) -> FunctionDef:
    """Add a function to the library: `branch` with the index as another input."""
    function = library.add()
    function.CopyFrom(next(candidate for candidate in library if candidate.signature.name == branch.name))
    function.signature.name = _unused_name(f"{branch.name}_with_index", library)
    function.signature.input_arg.add(name="transload_index", type=_INT32)
    if _INPUT_SHAPES in function.attr:
        function.attr[_INPUT_SHAPES].list.shape.add()  # the empty shape: the index is a scalar
    return function


def _remaining_case(node: tf.compat.v1.NodeDef, library: Library) -> FunctionDef:
    """Add a function to the library: the case without its first function, of the inputs passed on and the index."""
    _, *alternatives = node.attr["branches"].list.func
    function = library.add()
    function.signature.name = _unused_name(f"{alternatives[0].name}_and_others", library)
    passed = _arguments(function.signature.input_arg, "given", node.attr["Tin"].list.type)
    results = _arguments(function.signature.output_arg, "result", node.attr["Tout"].list.type)
    function.signature.input_arg.add(name="index", type=_INT32)
    one_name = _int32_constant(function.node_def, "one", 1)
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


def _int32_constant(nodes: Nodes, name: str, value: int) -> str:
    """Add a constant to the nodes; return its name."""
    constant = nodes.add(name=name, op="Const")
    constant.attr["dtype"].type = constant.attr["value"].tensor.dtype = _INT32
    constant.attr["value"].tensor.tensor_shape.SetInParent()
    constant.attr["value"].tensor.int_val.append(value)
    return name


def _int32_node(nodes: Nodes, name: str, operator: str, *inputs: str) -> str:
    nodes.add(name=name, op=operator, input=inputs).attr["T"].type = _INT32
    return name


def _unused_name(name: str, library: Library) -> str:
    names = {candidate.signature.name for candidate in library}
    return next(candidate for at in range(len(names) + 1) if (candidate := f"{name}_{at}") not in names)


def _reference(function: FunctionDef) -> tf.compat.v1.NameAttrList:
    return tf.compat.v1.NameAttrList(name=function.signature.name)
