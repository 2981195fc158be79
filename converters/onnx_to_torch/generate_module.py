"""An ONNX model as the text of a Python module and the arrays that its weights are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...models.errors import Refused
from ...models.signature import Array, Bounds
from ..onnx_graph.graph import Model
from ..onnx_graph.patterns import fused
from .common.tensor_sequence import TensorSequence
from .helper_source import text_of
from .module_writer import Page
from .safe_names import comment
from .statements import spaced
from .values import Value
from .write_graph import Walk

if TYPE_CHECKING:
    import torch

WEIGHTS = "weights.safetensors"
_PARAMETERS = ("float16", "bfloat16", "float32", "float64")  # of these a gradient can be taken


@dataclass(frozen=True)
class Generated:
    """The module's text, and its weights by the attribute that holds each."""

    text: str
    weights: dict[str, Array]
    operators: int
    opset: int


def generate(model: Model, examples: Sequence[torch.Tensor], bounds: Mapping[str, Bounds] | None = None) -> Generated:
    """The module of a model. `examples`: a tensor for each input, no two dynamic axes of one size;
    `bounds`: of the axes that have any.

    Raises Refused where an operator cannot be carried as the specification words it; the message names the node, the
    module and the line it comes from.
    """
    graph = fused(model.graph)
    page = Page()
    arguments = [
        page.argument(spec, example, bounds or {}) for spec, example in zip(model.inputs, examples, strict=True)
    ]
    answers = Walk(page, model.functions).run_inside(graph, arguments, {})
    results = [_result(name, value) for name, value in zip(graph.outputs, answers, strict=True)]
    page.check_axes()
    return Generated(_text(model, page, arguments, results), dict(page.weights), len(graph.nodes), model.opset)


def _result(name: str, value: Value) -> str:
    """An output's code: a weight is handed out as a copy."""
    if isinstance(value, TensorSequence):
        raise Refused(f"the output {name} is a sequence of tensors", fix="join them in the model, or list the outputs")
    if value.dtype not in _RETURNED:
        raise Refused(f"the output {name} is {value.dtype}", fix="cast it to another dtype in the model")
    code = f"{value}"
    return f"{code}.clone()" if code.startswith("self.") else code


_RETURNED = frozenset(
    (*_PARAMETERS, "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
     "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
)  # fmt: skip


def _text(model: Model, page: Page, arguments: Sequence[Value], results: Sequence[str]) -> str:
    helpers = text_of(page.helpers)
    body = _forward(page, results)
    given = ", ".join(f"{argument}: Tensor" for argument in arguments)
    made = "Tensor" if len(results) == 1 else f"tuple[{', '.join(['Tensor'] * len(results))}]"
    code = "\n".join(
        [
            "class Model(nn.Module):",
            f'    """{len(page.weights)} weights, {len(page.lines)} statements."""',
            "",
            "    def __init__(self) -> None:",
            "        super().__init__()",
            *(f"        {each}" for each in _declared(page)),
            "",
            f"    def forward(self, {given}) -> {made}:",
            *(f"        {line}" if line else "" for line in body),
            "",
            "",
            _LOAD,
        ]
    )
    return "\n".join([_head(model, arguments, helpers + code), *([helpers, "", ""] if helpers else []), code])


def _head(model: Model, arguments: Sequence[Value], code: str) -> str:
    """The docstring, and the imports that the code needs."""
    lines = [f"    {argument}: {comment(str(spec))}" for argument, spec in zip(arguments, model.inputs, strict=True)]
    text = "\n".join(
        [
            f"A model in plain PyTorch, made of ONNX of opset {model.opset}. Edit it as you like.",
            "",
            "    from model import load",
            f"    model = load()  # with the weights from {WEIGHTS} beside this file",
            "",
            "Inputs:",
            *(_harmless(line) for line in lines),
        ]
    )
    imports = ["from __future__ import annotations", ""]
    imports += ["import math"] if "math." in code else []
    imports += ["from collections.abc import Callable"] if "Callable[" in code else []
    imports += ["from pathlib import Path", "", "import torch"]
    imports += ["import torch.nn.functional as F"] if "F." in code else []
    imports += ["from safetensors.torch import load_file", "from torch import Tensor, nn", "", ""]
    return "\n".join([f'"""{text}\n"""', "", *imports])


def _harmless(line: str) -> str:
    """A line of a docstring that cannot end it."""
    return line.replace("\\", "/").replace('"', "'")


def _declared(page: Page) -> list[str]:
    """A statement for each weight: floats that can be trained as parameters, the others as buffers."""
    found = []
    for name, array in page.weights.items():
        dtype = "" if array.dtype.name == "float32" else f", dtype=torch.{array.dtype.name}"
        empty = f"torch.empty({tuple(array.shape)}{dtype})"
        if array.dtype.name in _PARAMETERS and name not in page.statistics:
            found.append(f"self.{name} = nn.Parameter({empty})")
        else:
            found.append(f'self.register_buffer("{name}", {empty})')
    return found or ["pass"]


def _forward(page: Page, results: Sequence[str]) -> list[str]:
    """The statements, with the module and the source line that they come from above them."""
    used = "\n".join([*(line.code for line in page.lines), *results])
    body = page.axis_lines(used)
    origin = ""
    for line in page.lines:
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
