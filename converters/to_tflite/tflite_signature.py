"""Names of a TFLite file's inputs, outputs and operators, and rewriting of files, by the schema that LiteRT brings.

A signature lists its names in an order of its own; the order here is the main graph's, which is the model's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...models.tensorflow_names import default_signature, plain_names

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import Model, ModelT, SubGraph, TensorMap

FLEX_PREFIX = "Flex"  # of custom operators that TensorFlow's Flex delegate runs, as "FlexErf"


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """An input or output: its name, and the index and name of its tensor in the main graph."""

    name: str
    index: int
    tensor: str


def model_of(flat: bytes | bytearray) -> Model:
    """Open a file by the schema that LiteRT brings; nothing of it is read yet."""
    from ai_edge_litert.schema_py_generated import Model

    return Model.GetRootAs(flat, 0)


def signatures(model: Model) -> list[str]:
    """Return the names of the signatures in a file, in its order."""
    return [model.SignatureDefs(at).SignatureKey().decode() for at in range(model.SignatureDefsLength())]


def custom_names(model: Model) -> list[str]:
    """Return the names of a file's custom operators, sorted."""
    codes = [model.OperatorCodes(at).CustomCode() for at in range(model.OperatorCodesLength())]
    return sorted({code.decode(errors="replace") for code in codes if code})


def flex_names(model: Model) -> tuple[str, ...]:
    """Return the names of a file's Flex operators, sorted, as "FlexErf"."""
    return tuple(name for name in custom_names(model) if name.startswith(FLEX_PREFIX))


def inputs_and_outputs(model: Model) -> tuple[list[NamedTensor], list[NamedTensor]]:
    """Return the inputs and the outputs of the main graph, in its order."""
    names = signatures(model)
    served = default_signature(names)
    graph = model.Subgraphs(0)
    inputs, outputs = None, None
    if served is not None:
        signature = model.SignatureDefs(names.index(served))
        inputs = [signature.Inputs(at) for at in range(signature.InputsLength())]
        outputs = [signature.Outputs(at) for at in range(signature.OutputsLength())]
    return _named_tensors(graph, graph.InputsAsNumpy(), inputs), _named_tensors(graph, graph.OutputsAsNumpy(), outputs)


def _named_tensors(graph: SubGraph, indices: Iterable[int], entries: list[TensorMap] | None) -> list[NamedTensor]:
    """Name one side of the main graph. One tensor may have several entries in the signature, or a repeated one."""
    order = [int(index) for index in indices]
    tensors = [graph.Tensors(index).Name().decode() for index in order]
    if entries is None:
        names = plain_names(tensors)
        return [NamedTensor(name, index, tensor) for name, index, tensor in zip(names, order, tensors, strict=True)]
    return [
        NamedTensor(entry.Name().decode(), entry.TensorIndex(), graph.Tensors(entry.TensorIndex()).Name().decode())
        for entry in sorted(entries, key=lambda entry: order.index(entry.TensorIndex()))
    ]


def quantising_operators(model: Model) -> list[str]:
    """Return the operators with float inputs and integer weights, by the names of TFLite's schema.

    LiteRT quantises their inputs while the model runs, by the range of each call.
    """
    from ai_edge_litert.schema_py_generated import BuiltinOperator, TensorType

    names = {number: name for name, number in vars(BuiltinOperator).items() if not name.startswith("_")}
    narrow = {TensorType.INT8, TensorType.UINT8, TensorType.INT4}
    quantising = set()
    for graph in map(model.Subgraphs, range(model.SubgraphsLength())):
        for operator in map(graph.Operators, range(graph.OperatorsLength())):
            types = [graph.Tensors(at).Type() for at in map(operator.Inputs, range(operator.InputsLength())) if at >= 0]
            if types and types[0] == TensorType.FLOAT32 and not narrow.isdisjoint(types[1:]):
                code = model.OperatorCodes(operator.OpcodeIndex())
                quantising.add(names[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())])  # the second is a byte
    return sorted(quantising)


def with_unique_names(flat: bytes) -> bytes:
    """Return the file with unique names for its tensors, for a tool that needs them; unchanged if they are unique."""
    from ai_edge_litert.schema_py_generated import ModelT

    model = model_of(flat)
    graphs = [model.Subgraphs(at) for at in range(model.SubgraphsLength())]
    names = [graph.Tensors(at).Name() or b"" for graph in graphs for at in range(graph.TensorsLength())]
    if all(names) and len(set(names)) == len(names):
        return flat
    unpacked = ModelT.InitFromObj(model)
    counts: Counter[bytes] = Counter(names)
    for number, graph in enumerate(unpacked.subgraphs):
        for index, tensor in enumerate(graph.tensors):
            name = tensor.name or b""
            if not name or counts[name] > 1:
                tensor.name = name + f"/{number}.{index}".encode()
    return packed(unpacked)


def packed(unpacked: ModelT, about_bytes: int = 1 << 20) -> bytes:
    """Pack an unpacked model into a file. A result larger than `about_bytes` is copied once more on the way."""
    import flatbuffers

    builder = flatbuffers.Builder(about_bytes)
    builder.Finish(unpacked.Pack(builder), b"TFL3")
    return bytes(memoryview(builder.Bytes)[builder.Head() :])
