"""Calls that the specification leaves undefined, of operators that its bodies stand for: a body answers some anyway."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ....models.errors import Refused
from ..graph import GraphValue, Node, attribute_value

_FLOATS = (1, 10, 11, 16)  # of onnx.TensorProto


def check_defined(node: Node, inputs: Sequence[GraphValue | None]) -> None:
    """Raise Refused where a standard operator's call has no meaning."""
    faults = _faults_of_attention(node, inputs) if (node.domain, node.op_type) == ("", "Attention") else ()
    for reason in faults:
        raise Refused(f"{node}: {reason}", fix="check the model")


def _faults_of_attention(node: Node, inputs: Sequence[GraphValue | None]) -> Iterator[str]:
    numbers = {name: attribute_value(attribute) for name, attribute in node.attributes.items()}
    query, key, _, _, past_key, past_value, lengths = (*inputs, *[None] * 7)[:7]
    heads = [numbers.get(name, 0) for name in ("q_num_heads", "kv_num_heads")]
    if query is not None and key is not None and query.rank == 4:
        heads = [value.shape[1] for value in (query, key)]
    elif not all(heads):
        yield "its inputs have 3 axes and it does not say how many heads there are"
    if all(isinstance(count, int) for count in heads) and heads[0] % max(heads[1], 1):
        yield f"{heads[0]} heads of queries cannot share {heads[1]} of keys"
    if (mode := numbers.get("qk_matmul_output_mode", 0)) not in range(4):
        yield f"its attribute qk_matmul_output_mode is {mode}, and only 0 to 3 are defined"
    if (precision := numbers.get("softmax_precision", _FLOATS[0])) not in _FLOATS:
        yield f"its attribute softmax_precision is {precision}, which is no float"
    if min(numbers.get(f"{side}_window_size", -1) for side in ("left", "right")) < -1:
        yield "a window size is below -1"
    if (past_key is None) != (past_value is None):
        yield "only one of past_key and past_value is given"
    if past_key is not None and lengths is not None:
        yield "past_key and nonpad_kv_seqlen are both given"
