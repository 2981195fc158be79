"""Handlers of TensorFlow's and TFLite's loops, choices and lists of tensors for tf2onnx."""

from __future__ import annotations

from collections.abc import Iterator

from .. import private_tf2onnx
from ..ledger import handlers
from .graph_writer import TfGraphWriter
from .loop_conversion import LoopConversion
from .loop_counting import LoopCounting
from .tensor_lists import add_copy, convert_list_operator
from .tf2onnx_graphs import TfGraph, TfNode, constant_integer, copy_source, integer_source


def _convert_while(graph: TfGraph, node: TfNode, **options: object) -> None:
    """Convert a loop; those over ragged lists, which are no tensors, are tf2onnx's own."""
    body = private_tf2onnx.find_function(node.get_attr_str("body"))
    if body.ragged_variant_list_reads or body.ragged_variant_list_writes:
        private_tf2onnx.While.version_7(graph, node, **options)
    else:
        LoopConversion(graph, node).convert()


def _convert_if(graph: TfGraph, node: TfNode, **options: object) -> None:
    """Convert a choice between a stack of what a loop has made, where it ran, and an empty tensor of that shape.

    Our lowering writes it so, as TensorFlow has no stack of no elements whose size is not known. ONNX has. All else is
    tf2onnx's own.
    """
    stacks = _stacks(graph, node) if len(node.input) > 1 else None  # tf2onnx makes some without inputs
    if stacks is None:
        own = private_tf2onnx.IfOp if node.type == "If" else private_tf2onnx.StatelessIfOp
        own.version_1(graph, node, **options)
        return
    types = list(zip(node.output, node.output_shapes, node.output_dtypes, strict=True))
    graph.remove_node(node.name)
    for stack, (name, shape, dtype) in zip(stacks, types, strict=True):
        add_copy(graph, stack, name, shape, dtype)


def _stacks(graph: TfGraph, node: TfNode) -> list[str] | None:
    """Return what the outputs of an If are in either case, where all are stacks of a loop's steps, and else None."""
    then, otherwise = (
        private_tf2onnx.find_function(node.get_attr_str(branch)) for branch in ("then_branch", "else_branch")
    )
    arguments = dict(zip(then.input_names, node.input[1:], strict=True))
    stacks = [copy_source(graph, arguments.get(copy_source(then, name), "")) for name in then.outputs]
    is_empty = all(_first_size(otherwise, name) == 0 for name in otherwise.outputs)
    return stacks if is_empty and all(_has_steps(graph, node.input[0], stack) for stack in stacks) else None


def _first_size(graph: TfGraph, name: str) -> int | None:
    shape = graph.get_shape(name)
    return shape[0] if shape else None


def _has_steps(graph: TfGraph, condition: str, stack: str) -> bool:
    """Return whether a condition is that the loop that made a stack ran at all."""
    loop, test = (graph.get_node_by_output(name) for name in (stack, copy_source(graph, condition)))
    if loop is None or loop.type != "Loop" or test is None or test.type != "Greater":
        return False
    if list(loop.output).index(stack) < len(loop.input) - 2 or constant_integer(graph, test.input[1]) != 0:
        return False
    steps = graph.get_node_by_output(integer_source(graph, test.input[0]))
    return bool(steps is not None and steps.type == "Max" and steps.input[0] == loop.input[0])


def _convert_tflite_while(graph: TfGraph, node: TfNode, **options: object) -> None:
    """Call tf2onnx's own handler, which asks a condition before each step, and tell how many steps there are."""
    condition, body = (
        private_tf2onnx.find_function(node.get_attr_str(f"{side}_subgraph_index")) for side in ("cond", "body")
    )
    steps = LoopCounting(graph, node, condition, body).write_steps(TfGraphWriter(graph, node.name))
    body.scan_outputs += [row for row in _grown(graph, node, body) if row[0] not in dict(body.scan_outputs)]
    private_tf2onnx.TflWhile.version_7(graph, node, **options)
    if steps is not None:
        loop = graph.get_node_by_name(f"{node.name}_loop")
        graph.replace_inputs(loop, [steps, "", *loop.input[2:]])
        inner = loop.get_body_graphs()["body"]
        inner.outputs[0] = TfGraphWriter(inner, node.name).call("Identity", inner.input_names[1])


def _grown(graph: TfGraph, node: TfNode, body: TfGraph) -> Iterator[tuple[int, str]]:
    """Yield the place and the row of each variable that is empty before the loop, and to which each step joins one row
    at the end and does nothing else with it. A Reshape before that keeps the elements and their order."""
    for place, (name, before) in enumerate(zip(node.input, body.input_names, strict=True)):
        joined = body.get_node_by_output(copy_source(body, body.outputs[place]))
        is_empty = _first_size(graph, name) == 0
        if joined is None or not is_empty or joined.type != "Concat" or len(joined.input) != 2:
            continue
        held, row = joined.input
        shaped = body.get_node_by_output(copy_source(body, held))
        held = copy_source(body, shaped.input[0] if shaped is not None and shaped.type == "Reshape" else held)
        is_read_once = all(len(body.find_output_consumers(side)) == 1 for side in (before, joined.input[0]))
        is_result = len(body.find_output_consumers(joined.output[0])) + (joined.output[0] in body.outputs) == 1
        is_row = joined.get_attr_value("axis") == 0 and _first_size(body, row) == 1
        if held == before and is_read_once and is_result and is_row:
            yield place, row


PATCHES = (
    *handlers(
        dict.fromkeys(("While", "StatelessWhile"), _convert_while),
        why="it takes whatever a step writes into a list for the next part of a stack, wherever it is written and "
        "however long the list is: a loop that fills its list from the end comes out turned around, with no word",
        upstream="tf2onnx/onnx_opset/controlflow.py:368",
        until="tf2onnx follows the places that a loop writes",
    ),
    *handlers(
        dict.fromkeys(
            (
                "TensorListStack", "TensorListFromTensor", "TensorListGetItem", "TensorListLength",
                "TensorListSetItem", "TensorListReserve", "TensorListGather",
            ),
            convert_list_operator,
        ),
        why="it takes no list that is read, written twice in a step, handed into a branch or written without a loop",
        upstream="tf2onnx/onnx_opset/controlflow.py:308",
        until="tf2onnx keeps lists as tensors or sequences",
    ),
    *handlers(
        dict.fromkeys(("If", "StatelessIf"), _convert_if),
        why="a choice between a stack and nothing, as our own lowering writes it, stays a branch of no known shape",
        upstream="tf2onnx/onnx_opset/controlflow.py:254",
        until="TensorFlow stacks no elements of unknown size",
    ),
    *handlers(
        {"TFL_WHILE": _convert_tflite_while},
        why="it asks a condition before each step also of a loop that only counts, and a list that grows by a row in "
        "each step is carried as a whole",
        upstream="tf2onnx/tflite_handlers/tfl_controlflow.py:22",
        until="tf2onnx writes counting loops without a condition",
    ),
)  # fmt: skip
