"""A SavedModel's choices of one of several functions (tf.switch_case) as choices of one of two: ONNX and TFLite have
nothing but If.

Case runs the function that its index counts to, and the last one where there is no such function:

    Case(index, x; f, g, h)  ->  If(index == 0, x, index; f', rest)   with   rest(x, index) = Case(index - 1, x; g, h)

f' is f, and takes the index, too: an If gives both of its functions the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_CHOICES = {"Case": "If", "StatelessCase": "StatelessIf"}
_SHAPES = "_input_shapes"  # of a function, where they are known
INT32, _BOOL = 3, 10  # tensorflow.DataType


def without_cases(graph: Any) -> bool:
    """Write the cases of a GraphDef and of its functions in place; whether there were any."""
    library = graph.library.function
    found = [_write(node, graph.node, library, "{}") for node in _cases(graph.node)]
    for function in library:  # which grows
        found += [_write(node, function.node_def, library, "{}:{}:0") for node in _cases(function.node_def)]
    return bool(found)


def _cases(nodes: Any) -> list[Any]:
    return [node for node in nodes if node.op in _CHOICES]


def _write(node: Any, nodes: Any, library: Any, result: str) -> str:
    """Make an If of a case among `nodes`; its name. `result`: what they call a node's result, by its name and by what
    its operator calls it."""
    index, given, awaited = _inputs(node)
    then, *others = node.attr["branches"].list.func
    otherwise = others[-1] if others else then
    if len(others) > 1:
        then, otherwise = _called(_with_index(then, library)), _called(_rest(node, library))
        given = [*given, index]
        node.attr["Tin"].list.type.append(INT32)
    zero = int32_constant(nodes, f"{node.name}/zero", 0)
    first = _of_int32(nodes, f"{node.name}/is_first", "Equal", index, result.format(zero, "output"))
    node.input[:] = [result.format(first, "z"), *given, *awaited]
    node.op = _CHOICES[node.op]
    node.attr["Tcond"].type = _BOOL
    node.attr["then_branch"].func.CopyFrom(then)
    node.attr["else_branch"].func.CopyFrom(otherwise)
    del node.attr["branches"]
    return str(node.name)


def _inputs(node: Any) -> tuple[str, list[str], list[str]]:
    """The index of a case, what it hands on, and the nodes that it waits for."""
    index, *given = node.input
    return index, [each for each in given if each[0] != "^"], [each for each in given if each[0] == "^"]


def _with_index(branch: Any, library: Any) -> Any:
    """A function more in the library: `branch` with an input more."""
    made = library.add()
    made.CopyFrom(next(each for each in library if each.signature.name == branch.name))
    made.signature.name = _unused(f"{branch.name}_with_index", library)
    made.signature.input_arg.add(name="transload_index", type=INT32)
    if _SHAPES in made.attr:
        made.attr[_SHAPES].list.shape.add()  # of a number
    return made


def _rest(node: Any, library: Any) -> Any:
    """A function more in the library: the case without its first function, of what it hands on and its index."""
    _, *others = node.attr["branches"].list.func
    made = library.add()
    made.signature.name = _unused(f"{others[0].name}_and_others", library)
    given = _arguments(made.signature.input_arg, "given", node.attr["Tin"].list.type)
    results = _arguments(made.signature.output_arg, "result", node.attr["Tout"].list.type)
    made.signature.input_arg.add(name="index", type=INT32)
    one = int32_constant(made.node_def, "one", 1)
    less = _of_int32(made.node_def, "less", "Sub", "index", f"{one}:output:0")
    case = made.node_def.add()
    case.CopyFrom(node)
    case.name = "case"
    case.input[:] = [f"{less}:z:0", *given]
    del case.attr["branches"].list.func[0]
    for at, each in enumerate(results):
        made.ret[each] = f"case:output:{at}"
    return made


def _arguments(side: Any, word: str, kinds: Sequence[int]) -> list[str]:
    """Arguments added to a signature; their names."""
    for at, kind in enumerate(kinds):
        side.add(name=f"{word}_{at}", type=kind)
    return [each.name for each in side]


def int32_constant(nodes: Any, name: str, value: int) -> str:
    """A node more; its name."""
    made = nodes.add(name=name, op="Const")
    made.attr["dtype"].type = made.attr["value"].tensor.dtype = INT32
    made.attr["value"].tensor.tensor_shape.SetInParent()
    made.attr["value"].tensor.int_val.append(value)
    return name


def _of_int32(nodes: Any, name: str, operator: str, *inputs: str) -> str:
    nodes.add(name=name, op=operator, input=inputs).attr["T"].type = INT32
    return name


def _unused(name: str, library: Any) -> str:
    taken = {each.signature.name for each in library}
    return next(each for at in range(len(taken) + 1) if (each := f"{name}_{at}") not in taken)


def _called(function: Any) -> Any:
    from tensorflow.core.framework.attr_value_pb2 import NameAttrList

    return NameAttrList(name=function.signature.name)
