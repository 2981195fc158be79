"""Which nodes of a SavedModel may save: those that nothing but the saver reaches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transload.converters.readers.saved_model.saved_model_folder import _check_operators, signature_of_saved_model
from transload.converters.readers.saved_model.saved_model_proto import message_class
from transload.models.errors import BadRequest


def saved_graph() -> Any:
    """A graph that serves y, and saves a variable to the file that the loader passes."""
    graph = message_class("MetaGraph")()
    for name, operator, *inputs in (
        (b"x", b"Placeholder"), (b"y", b"Neg", b"x"), (b"file", b"Placeholder"),
        (b"save", b"SaveV2", b"file"), (b"saver", b"NoOp", b"^save"),
    ):  # fmt: skip
        graph.graph_def.node.add(name=name, op=operator, input=inputs)
    graph.saver_def.filename_tensor_name, graph.saver_def.save_tensor_name = b"file:0", b"saver:0"
    graph.signature_def["serving_default"].outputs["y"].name = b"y:0"
    return graph


def in_collection(graph: Any) -> None:
    graph.collection_def["saved_model_main_op"].node_list.value.append(b"save:0")


def in_control_form(graph: Any) -> None:
    graph.collection_def["any_name"].node_list.value.append(b"^save")


def in_output(graph: Any) -> None:
    graph.signature_def["__saved_model_init_op"].outputs["a"].name = b"saver"


def in_input(graph: Any) -> None:
    graph.signature_def["serving_default"].inputs["a"].name = b"saver:0"


def in_sparse_output(graph: Any) -> None:
    graph.signature_def["serving_default"].outputs["a"].coo_sparse.indices_tensor_name = b"save:0"


def in_part(graph: Any) -> None:
    graph.signature_def["serving_default"].outputs["a"].composite_tensor.components.add(name=b"save:0")


def test_the_saver_may_save() -> None:
    _check_operators(saved_graph(), Path("m"))


@pytest.mark.parametrize("change", [in_collection, in_control_form, in_output, in_input, in_sparse_output, in_part])
def test_an_entry_point_that_is_the_saver_is_refused(change: Callable[[Any], None]) -> None:
    graph = saved_graph()
    change(graph)
    with pytest.raises(BadRequest, match=r"holds the operator SaveV2 \(save\), which writes files"):
        _check_operators(graph, Path("m"))


def test_a_signature_that_gives_nothing_is_refused(tmp_path: Path) -> None:
    graph = saved_graph()
    graph.signature_def["serving_default"].inputs["x"].name = b"x:0"
    del graph.signature_def["serving_default"].outputs["y"]
    with pytest.raises(BadRequest, match="takes or gives nothing: there is nothing to serve"):
        signature_of_saved_model(graph, tmp_path)


@pytest.mark.parametrize("name", ["x²", "x" + "9" * 5000, "x\ny"])
def test_a_name_that_no_signature_takes_is_refused(name: str, tmp_path: Path) -> None:
    graph = saved_graph()
    graph.meta_info_def.tags.append(b"serve")
    for tensors in (graph.signature_def["serving_default"].inputs, graph.signature_def["serving_default"].outputs):
        tensors[name].dtype = 1
        tensors[name].name = b"x:0"
        tensors[name].tensor_shape.dim.add(size=3)
    del graph.signature_def["serving_default"].outputs["y"]
    if name.endswith("²"):
        assert signature_of_saved_model(graph, tmp_path).inputs[0].name == name
        return
    with pytest.raises(BadRequest, match=r" is not a whole SavedModel: "):
        signature_of_saved_model(graph, tmp_path)
