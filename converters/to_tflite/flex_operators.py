"""The operators of a TFLite file that TensorFlow's Flex delegate brings: their names, and what they really run.

Such an operator is a custom one called "FlexErf". That name is a label: the delegate runs what the operator's own
options say, a FlexBuffer of an operator's name and a NodeDef. There are operators of TensorFlow that read files, write
files and run Python, so all three are held against the list that SavedModels are (allowed_operators.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...models.errors import BadRequest
from ..to_saved_model.allowed_operators import ALLOWED, TRUST, what_it_does
from ..to_saved_model.saved_model_proto import calls_of, message_class

PREFIX = "Flex"


def flex_names(model: Any) -> tuple[str, ...]:
    """The names of a file's Flex operators, sorted, as "FlexErf". `model`: by TFLite's schema."""
    return tuple(name for name in custom_names(model) if name.startswith(PREFIX))


def custom_names(model: Any) -> list[str]:
    """The names of a file's custom operators, sorted."""
    codes = [model.OperatorCodes(at).CustomCode() for at in range(model.OperatorCodesLength())]
    return sorted({code.decode(errors="replace") for code in codes if code})


def check_flex(model: Any, path: Path) -> None:
    """Raises BadRequest where a Flex operator may do more than compute, or does not say what it runs."""
    for name, operator in _operators(model):
        for runs in (name.removeprefix(PREFIX), *_runs(name, operator, path)):
            if runs not in ALLOWED:
                as_ = "" if name == PREFIX + runs else f" runs {runs}, which"
                raise BadRequest(f"{path} holds the operator {name}, which{as_} {what_it_does(runs)}", fix=TRUST)


def _operators(model: Any) -> Iterator[tuple[str, Any]]:
    """The Flex operators of every graph, by their names."""
    for graph in map(model.Subgraphs, range(model.SubgraphsLength())):
        for operator in map(graph.Operators, range(graph.OperatorsLength())):
            name = (model.OperatorCodes(operator.OpcodeIndex()).CustomCode() or b"").decode(errors="replace")
            if name.startswith(PREFIX):
                yield name, operator


def _runs(name: str, operator: Any, path: Path) -> Iterator[str]:
    """What an operator's options name: twice the operator, and the functions among its attributes."""
    from flatbuffers import flexbuffers

    try:
        if operator.LargeCustomOptionsSize():
            raise ValueError("they lie outside of the table")
        options = flexbuffers.GetRoot(bytes(operator.CustomOptionsAsNumpy())).AsVector
        if not (options[0].IsString and options[1].IsString):
            raise ValueError("they are no texts")
        node = message_class("Node").FromString(bytes(options[1].AsStringBytes))
        found = [options[0].AsString, *(each.decode() for each in calls_of(node))]
    except Exception as error:  # a FlexBuffer is not verified: whatever is wrong with it, it says nothing
        raise BadRequest(f"{path} has options of {name} that cannot be read: {error}", fix=TRUST) from error
    yield from found
