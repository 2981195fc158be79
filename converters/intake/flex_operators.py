"""Check of the operators in a TFLite file that TensorFlow's Flex delegate runs.

Such a custom operator has a name like "FlexErf". The name is a label: the delegate runs what the operator's options
say, a FlexBuffer of an operator's name and a NodeDef. Some operators of TensorFlow read files, write files or run
Python, so all three are checked against the list for SavedModels (allowed_operators.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...models.errors import BadRequest
from ..to_tflite.tflite_signature import FLEX_PREFIX
from .allowed_operators import ALLOWED, TRUST, effect_of
from .saved_model_proto import called_names, message_class

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import Model, Operator


def check_flex(model: Model, path: Path) -> None:
    """Raise BadRequest if a Flex operator may do more than compute, or does not say what it runs."""
    for label, operator in _flex_operators(model):
        for name in (label.removeprefix(FLEX_PREFIX), *_names_in_options(label, operator, path)):
            if name not in ALLOWED:
                runs = "" if label == FLEX_PREFIX + name else f" runs {name}, which"
                raise BadRequest(f"{path} holds the operator {label}, which{runs} {effect_of(name)}", fix=TRUST)


def _flex_operators(model: Model) -> Iterator[tuple[str, Operator]]:
    """Yield the Flex operators of every subgraph with their labels."""
    for graph in map(model.Subgraphs, range(model.SubgraphsLength())):
        for operator in map(graph.Operators, range(graph.OperatorsLength())):
            name = (model.OperatorCodes(operator.OpcodeIndex()).CustomCode() or b"").decode(errors="replace")
            if name.startswith(FLEX_PREFIX):
                yield name, operator


def _names_in_options(label: str, operator: Operator, path: Path) -> Iterator[str]:
    """Yield the names in an operator's options: the operator twice, and the functions in its attributes."""
    from flatbuffers import flexbuffers

    try:
        if operator.LargeCustomOptionsSize():
            raise ValueError("they lie outside of the table")
        options = flexbuffers.GetRoot(bytes(operator.CustomOptionsAsNumpy())).AsVector
        if not (options[0].IsString and options[1].IsString):
            raise ValueError("they are no texts")
        node = message_class("Node").FromString(bytes(options[1].AsStringBytes))
        called = [options[0].AsString, *(function.decode() for function in called_names(node))]
    except Exception as error:  # a FlexBuffer is not verified: reading a broken one may raise anything
        raise BadRequest(f"{path} has options of {label} that cannot be read: {error}", fix=TRUST) from error
    yield from called
