"""An ONNX model as the text of a Python module, and its weights as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...models.errors import Refused
from ...models.signature import Array, Bounds
from ..onnx_graph.graph import OnnxModel
from ..onnx_graph.patterns import fused
from .helper_source import text_of
from .lazy_torch import torch
from .module_writer import ModuleWriter
from .safe_names import comment
from .statements import spaced
from .values import Expression, ExpressionSequence
from .write_graph import GraphWriter

WEIGHTS = "weights.safetensors"
_PARAMETERS = ("float16", "bfloat16", "float32", "float64")  # the dtypes of which a gradient can be taken


@dataclass(frozen=True)
class GeneratedModule:
    """A module's text, and its weights by the attribute that holds each."""

    text: str
    weights: dict[str, Array]
    operators: int
    opset: int


def generate(
    model: OnnxModel, examples: Sequence[torch.Tensor], bounds: Mapping[str, Bounds] | None = None
) -> GeneratedModule:
    """Write the module of a model.

    `examples`: a tensor for each input, no two dynamic axes of one size; `bounds`: of the axes that have any.

    Raises Refused where an operator cannot be carried as the specification words it. The message names the node, and
    the PyTorch module and source line that it comes from.
    """
    graph = fused(model.graph)
    writer = ModuleWriter()
    arguments = [
        writer.argument(spec, example, bounds or {}) for spec, example in zip(model.inputs, examples, strict=True)
    ]
    answers = GraphWriter(writer, model.functions).run_inside(graph, arguments, {})
    results = [_result(name, value) for name, value in zip(graph.outputs, answers, strict=True)]
    writer.check_axes()
    return GeneratedModule(
        _text(model, writer, arguments, results), dict(writer.weights), len(graph.nodes), model.opset
    )


def _result(name: str, value: Expression) -> str:
    """Return the code of an output: a weight is returned as a copy."""
    if isinstance(value, ExpressionSequence):
        raise Refused(f"the output {name} is a sequence of tensors", fix="join them in the model, or list the outputs")
    if value.dtype not in _RETURNED:
        raise Refused(f"the output {name} is {value.dtype}", fix="cast it to another dtype in the model")
    code = f"{value}"
    return f"{code}.clone()" if code.startswith("self.") else code


_RETURNED = frozenset(
    (*_PARAMETERS, "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
     "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
)  # fmt: skip


def _text(model: OnnxModel, writer: ModuleWriter, arguments: Sequence[Expression], results: Sequence[str]) -> str:
    helpers = text_of(writer.helpers)
    body = _forward(writer, results)
    parameters = ", ".join(f"{argument}: Tensor" for argument in arguments)
    result_type = "Tensor" if len(results) == 1 else f"tuple[{', '.join(['Tensor'] * len(results))}]"
    code = "\n".join(
        [
            "class Model(nn.Module):",
            f'    """{len(writer.weights)} weights, {len(writer.lines)} statements."""',
            "",
            "    def __init__(self) -> None:",
            "        super().__init__()",
            *(f"        {declaration}" for declaration in _declared(writer)),
            "",
            f"    def forward(self, {parameters}) -> {result_type}:",
            *(f"        {line}" if line else "" for line in body),
            "",
            "",
            _LOAD,
        ]
    )
    return "\n".join([_head(model, arguments, helpers + code), *([helpers, "", ""] if helpers else []), code])


def _head(model: OnnxModel, arguments: Sequence[Expression], code: str) -> str:
    """Return the module's docstring and the imports that its code needs."""
    inputs = [f"    {argument}: {comment(str(spec))}" for argument, spec in zip(arguments, model.inputs, strict=True)]
    lines = [
        f'"""A model in plain PyTorch, made of ONNX of opset {model.opset}. Edit it as you like.',
        "",
        "    from model import load",
        f"    model = load()  # with the weights from {WEIGHTS} beside this file",
        "",
        "Inputs:",
        *(line.replace("\\", "/").replace('"', "'") for line in inputs),  # nothing in them ends the docstring
        '"""',
        "",
        "from __future__ import annotations",
        "",
    ]
    lines += ["import math"] if "math." in code else []
    lines += ["from collections.abc import Callable"] if "Callable[" in code else []
    lines += ["from pathlib import Path", "", "import torch"]
    lines += ["import torch.nn.functional as F"] if "F." in code else []
    return "\n".join([*lines, "from safetensors.torch import load_file", "from torch import Tensor, nn", "", ""])


def _declared(writer: ModuleWriter) -> list[str]:
    """Return a statement for each weight: floats that can be trained are parameters, and the others buffers."""
    statements = []
    for name, array in writer.weights.items():
        dtype = "" if array.dtype.name == "float32" else f", dtype=torch.{array.dtype.name}"
        empty = f"torch.empty({tuple(array.shape)}{dtype})"
        if array.dtype.name in _PARAMETERS and name not in writer.statistics:
            statements.append(f"self.{name} = nn.Parameter({empty})")
        else:
            statements.append(f'self.register_buffer("{name}", {empty})')
    return statements or ["pass"]


def _forward(writer: ModuleWriter, results: Sequence[str]) -> list[str]:
    """Return the statements of `forward`, under comments with the module and the source line that they come from."""
    used = "\n".join([*(line.code for line in writer.lines), *results])
    body = writer.axis_lines(used)
    origin = ""
    for line in writer.lines:
        if line.origin != origin and line.origin:
            body += [f"# {line.origin}"]
        origin = line.origin
        body += str(line).split("\n")
    return [*spaced(body), f"return {', '.join(results)}"]


_LOAD = f'''def load(weights: str | Path = Path(__file__).parent / "{WEIGHTS}") -> Model:
    """The module with its weights, ready to answer."""
    model = Model()
    model.load_state_dict(load_file(weights))
    return model.eval()
'''
