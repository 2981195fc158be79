"""What the inputs and outputs of a TFLite file are called: by its signature, else by its tensors; and what it computes
in another precision than it says.

A signature lists its names in an order of its own; the order here is the main graph's, which is the model's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from ...models.tensorflow_names import default_signature, plain_names


@dataclass(frozen=True, slots=True)
class Named:
    """One input or output: its name, and the number and name of its tensor in the main graph."""

    name: str
    at: int
    tensor: str


def model_of(flat: bytes | bytearray) -> Any:
    """The file by the schema that LiteRT brings; nothing of it is read yet."""
    from ai_edge_litert.schema_py_generated import Model

    return Model.GetRootAs(flat, 0)


def signature_names(model: Any) -> list[str]:
    """The names of the signatures in a file, in its order."""
    return [model.SignatureDefs(at).SignatureKey().decode() for at in range(model.SignatureDefsLength())]


def inputs_and_outputs(model: Any) -> tuple[list[Named], list[Named]]:
    """Inputs and outputs of the main graph, in its order."""
    names = signature_names(model)
    served = default_signature(names)
    signature = None if served is None else model.SignatureDefs(names.index(served))
    graph = model.Subgraphs(0)
    return (
        _side(
            graph, graph.InputsAsNumpy(), signature and [signature.Inputs(at) for at in range(signature.InputsLength())]
        ),
        _side(
            graph,
            graph.OutputsAsNumpy(),
            signature and [signature.Outputs(at) for at in range(signature.OutputsLength())],
        ),
    )


def _side(graph: Any, numbers: Any, given: list[Any] | None) -> list[Named]:
    """`given`: names and tensors as the signature has them. One tensor may have several names there, or be listed
    several times."""
    order = [int(each) for each in numbers]
    tensors = [graph.Tensors(at).Name().decode() for at in order]
    if given is None:
        names = plain_names(tensors)
        return [Named(name, at, tensor) for name, at, tensor in zip(names, order, tensors, strict=True)]
    listed = sorted(given, key=lambda each: order.index(each.TensorIndex()))
    return [
        Named(each.Name().decode(), each.TensorIndex(), graph.Tensors(each.TensorIndex()).Name().decode())
        for each in listed
    ]


def quantising_operators(model: Any) -> list[str]:
    """The operators that take floats and have whole numbers for weights, by the names of TFLite's schema: LiteRT
    quantises what they take while it runs, by its range in each call."""
    from ai_edge_litert.schema_py_generated import BuiltinOperator, TensorType

    names = {number: name for name, number in vars(BuiltinOperator).items() if not name.startswith("_")}
    narrow = {TensorType.INT8, TensorType.UINT8, TensorType.INT4}
    found = set()
    for graph in map(model.Subgraphs, range(model.SubgraphsLength())):
        for operator in map(graph.Operators, range(graph.OperatorsLength())):
            kinds = [graph.Tensors(at).Type() for at in map(operator.Inputs, range(operator.InputsLength())) if at >= 0]
            if kinds and kinds[0] == TensorType.FLOAT32 and not narrow.isdisjoint(kinds[1:]):
                code = model.OperatorCodes(operator.OpcodeIndex())
                found.add(names[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())])  # one of them is a byte
    return sorted(found)


def with_unique_names(flat: bytes) -> bytes:
    """The file with names that tell its tensors apart, for a tool that needs them to. What was so already, is as it
    was."""
    from ai_edge_litert.schema_py_generated import ModelT

    model = model_of(flat)
    graphs = [model.Subgraphs(at) for at in range(model.SubgraphsLength())]
    names = [graph.Tensors(at).Name() or b"" for graph in graphs for at in range(graph.TensorsLength())]
    if all(names) and len(set(names)) == len(names):
        return flat
    unpacked = ModelT.InitFromObj(model)
    seen: Counter[bytes] = Counter(names)
    for number, graph in enumerate(unpacked.subgraphs):
        for at, tensor in enumerate(graph.tensors):
            name = tensor.name or b""
            if not name or seen[name] > 1:
                tensor.name = name + f"/{number}.{at}".encode()
    return packed(unpacked)


def packed(unpacked: Any, about_bytes: int = 1 << 20) -> bytes:
    """A file of what was unpacked by the schema. One that is larger than was said costs its bytes once more, on the
    way."""
    import flatbuffers

    builder = flatbuffers.Builder(about_bytes)
    builder.Finish(unpacked.Pack(builder), b"TFL3")
    return bytes(memoryview(builder.Bytes)[builder.Head() :])
