"""What translations of torch's older exporter share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from ...lazy_import import LazyLibrary

if TYPE_CHECKING:
    import torch

Symbolics: TypeAlias = dict[str, Callable[..., Any]]  # names of PyTorch's operators, and what writes each

helper: Any = LazyLibrary("torch.onnx", "symbolic_helper")  # not all of it is in its types
FLOAT, INT64, BOOL, DOUBLE = 1, 7, 9, 11  # onnx.TensorProto's
_OPSETS = range(11, 21)


def register(symbolics: Symbolics, opsets: Iterable[int] = _OPSETS) -> None:
    """For every later export of this process."""
    import torch

    exporter: Any = torch.onnx  # not all of it is in its types
    for opset in opsets:
        for name, translation in symbolics.items():
            exporter.register_custom_op_symbolic(name, translation, opset)


class Traced:
    """What writes into the older exporter's graph, called as `op` is: so one formula serves both exporters. Its
    attributes are whole numbers, and a Python number is a constant of float32."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def node(*inputs: Any, **attributes: int) -> Any:
            import torch

            given = [constant(self._graph, each, torch.float32) if isinstance(each, float) else each for each in inputs]
            return self._graph.op(name, *given, **{f"{key}_i": value for key, value in attributes.items()})

        return node


def constant(g: Any, value: Any, dtype: torch.dtype | None = None) -> Any:
    """Numbers in the older exporter's graph; without a dtype of that which torch.tensor gives them."""
    import torch

    return g.op("Constant", value_t=torch.tensor(value, dtype=dtype))


def scalar_of(value: Any) -> str:
    """The exporter's name of a dtype, or nothing where it knows none."""
    kind = jit_type(value)
    return str(kind.scalar_name()) if kind else ""


def onnx_type(value: Any) -> Any:
    """Of a value whose dtype the exporter knows."""
    return jit_type(value).onnx_type()


def jit_type(value: Any) -> Any:
    """What the exporter calls a dtype, or None where it knows none."""
    import torch

    kinds: Any = torch.onnx
    kind = kinds.JitScalarType.from_value(value, kinds.JitScalarType.UNDEFINED)
    return None if kind is kinds.JitScalarType.UNDEFINED else kind
