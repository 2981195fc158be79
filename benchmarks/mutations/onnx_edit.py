"""An ONNX file as a graph that is edited: nodes by operator and module, attributes, weights, new operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from declarations import Array
from onnx import NodeProto, helper, numpy_helper

if TYPE_CHECKING:
    from torch import nn

_SCOPES, _STACK = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.stack_trace"
_FRAME = re.compile(r'File "[^"]*?(nets/\w+\.py)", line (\d+)')


@dataclass(frozen=True)
class Site:
    """Where a mutant is wrong: the operator in the file, the module, and the source line where the exporter kept it."""

    operator: str  # the name of the node, or of the first of several
    op_type: str
    module: str = ""  # "blocks.0.norm1"
    source: str = ""  # "nets/language.py:41"


@dataclass
class GraphEdit:
    """A graph under edit. What is changed is written down in `sites`."""

    model: onnx.ModelProto
    module: nn.Module  # what the file was exported from
    sites: list[Site] = field(default_factory=list)
    _made: int = 0

    @classmethod
    def load(cls, path: Path, module: nn.Module) -> GraphEdit:
        """Read a file that was exported from `module`."""
        return cls(onnx.load(path), module)

    def save(self, path: Path) -> None:
        """Take out constants that nothing reads any more, check the graph and write it."""
        read = {name for node in self.model.graph.node for name in node.input}
        kept = [tensor for tensor in self.model.graph.initializer if tensor.name in read]
        del self.model.graph.initializer[:]
        self.model.graph.initializer.extend(kept)
        onnx.checker.check_model(self.model)
        onnx.save(self.model, path)

    def nodes(self, op_type: str, within: str = "") -> list[NodeProto]:
        """Return the nodes of an operator, in order; `within`: whose module path or name holds this text."""
        return [
            node
            for node in self.model.graph.node
            if node.op_type == op_type and (within in node.name or within in _metadata(node).get(_SCOPES, ""))
        ]

    def node(self, op_type: str, within: str = "", at: int = 0) -> NodeProto:
        """Return one node and note it as the wrong one. Raises LookupError where there is none."""
        found = self.nodes(op_type, within)
        if len(found) <= (at if at >= 0 else -at - 1):
            raise LookupError(f"no {op_type} {within!r} at {at}")
        self.note(found[at])
        return found[at]

    def note(self, node: NodeProto) -> None:
        """Write a node down as a wrong one."""
        self.sites.append(site_of(node))

    def named(self, name: str) -> NodeProto:
        """Return the node of a name."""
        node: NodeProto = next(node for node in self.model.graph.node if node.name == name)
        return node

    def is_constant(self, name: str) -> bool:
        """Whether a value is an initializer or the output of a Constant."""
        try:
            self.array(name)
        except LookupError:
            return False
        return True

    def array(self, name: str) -> Array:
        """Return the value of an initializer or of a Constant."""
        for tensor in self.model.graph.initializer:
            if tensor.name == name:
                return np.array(numpy_helper.to_array(tensor))
        for node in self.nodes("Constant"):
            if node.output[0] == name:
                return np.array(numpy_helper.to_array(node.attribute[0].t))
        raise LookupError(f"{name} is no constant")

    def constant(self, value: object, dtype: str = "float32") -> str:
        """Add an initializer and return its name."""
        name = self._fresh("const")
        array = np.asarray(value) if isinstance(value, np.ndarray) else np.asarray(value, dtype=dtype)
        self.model.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def change(self, node: NodeProto, at: int, change: Callable[[Array], Array]) -> None:
        """Give a node another constant for its input `at`."""
        old = self.array(node.input[at])
        node.input[at] = self.constant(np.asarray(change(old.copy()), dtype=old.dtype))

    def insert_before(self, node: NodeProto, at: int, op_type: str, *more: str, **attributes: Any) -> NodeProto:
        """Send a node's input `at` through a new operator."""
        made = self._make(node, op_type, [node.input[at], *more], **attributes)
        self._place(node, [made])
        node.input[at] = made.output[0]
        return made

    def insert_after(self, node: NodeProto, op_type: str, *more: str, output: int = 0, **attributes: Any) -> NodeProto:
        """Send one of a node's outputs through a new operator."""
        inner = self._fresh(node.output[output])
        made = self._make(node, op_type, [inner, *more], **attributes)
        made.output[0] = node.output[output]
        node.output[output] = inner
        self._place(node, [made], after=True)
        return made

    def expand(self, node: NodeProto, write: Callable[[Writer], str]) -> None:
        """Replace a node by the operators that `write` writes; it returns the name of the result."""
        writer = Writer(self, node)
        result = write(writer)
        writer.nodes.append(self._make(node, "Identity", [result]))
        writer.nodes[-1].output[0] = node.output[0]
        self._place(node, writer.nodes)
        self.model.graph.node.remove(node)

    def fold_batch_norm(
        self, at: int, conv: str, norm: str, *, eps: float | None = None, stale: bool = False, scale_bias: bool = True
    ) -> None:
        """Fold a batch norm of the module into a convolution anew, wrongly in one of three ways."""
        conv_module: Any = self.module.get_submodule(conv)
        norm_module: Any = self.module.get_submodule(norm)
        weight, gamma, beta, mean, variance = (
            tensor.detach().double().numpy()
            for tensor in (conv_module.weight, norm_module.weight, norm_module.bias,
                           norm_module.running_mean, norm_module.running_var)
        )  # fmt: skip
        bias = conv_module.bias.detach().double().numpy() if conv_module.bias is not None else np.zeros_like(mean)
        if stale:
            mean, variance = np.zeros_like(mean), np.ones_like(variance)
        scale = gamma / np.sqrt(variance + (norm_module.eps if eps is None else eps))
        node = self.node("Conv", at=at)
        self.change(node, 1, lambda _: weight * scale[:, None, None, None])
        self.change(node, 2, lambda _: (bias * scale if scale_bias else bias) + beta - mean * scale)

    def _make(self, like: NodeProto, op_type: str, inputs: Iterable[str], **attributes: Any) -> NodeProto:
        name = self._fresh(op_type)
        made = helper.make_node(op_type, list(inputs), [name], name=f"node_{name}", **attributes)
        made.metadata_props.extend(like.metadata_props)
        return made

    def _fresh(self, stem: str) -> str:
        self._made += 1
        return f"{stem}_m{self._made}"

    def _place(self, node: NodeProto, made: list[NodeProto], *, after: bool = False) -> None:
        at = next(at for at, other in enumerate(self.model.graph.node) if other is node or other == node)
        for offset, new in enumerate(made):
            self.model.graph.node.insert(at + offset + after, new)


class Writer:
    """Writes the operators that stand in for one node."""

    def __init__(self, graph: GraphEdit, node: NodeProto) -> None:
        self._graph, self._node = graph, node
        self.inputs = list(node.input)
        self.nodes: list[NodeProto] = []

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Write an operator and return the name of its output."""
        made = self._graph._make(self._node, op_type, inputs, **attributes)
        self.nodes.append(made)
        return str(made.output[0])

    def const(self, value: object, dtype: str = "float32") -> str:
        """Return the name of a new constant."""
        return self._graph.constant(value, dtype)


def set_attribute(node: NodeProto, name: str, value: object) -> None:
    """Set an attribute of a node, or remove it where `value` is None."""
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    if value is not None:
        node.attribute.append(helper.make_attribute(name, value))


def attribute(node: NodeProto, name: str, default: object = None) -> Any:
    """Return an attribute of a node."""
    return next((helper.get_attribute_value(each) for each in node.attribute if each.name == name), default)


def site_of(node: NodeProto) -> Site:
    """Return where a node stands, by what the exporter wrote beside it."""
    metadata = _metadata(node)
    scopes = re.findall(r"'([^']*)'", metadata.get(_SCOPES, ""))
    frames = _FRAME.findall(metadata.get(_STACK, ""))
    source = ":".join(frames[-1]) if frames else ""
    module = scopes[-2] if len(scopes) > 1 else node.name.strip("/").rpartition("/")[0].replace("/", ".")
    return Site(node.name, node.op_type, module, source)


def _metadata(node: NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}
