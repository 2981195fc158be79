"""The part of TensorFlow's SavedModel messages that a check needs, without importing TensorFlow.

Fields that are not listed are skipped, so that weights inside of a graph cost nothing. Field numbers are those of
tensorflow/core/protobuf/{saved_model,meta_graph,saver,saved_object_graph}.proto and core/framework/*.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the messages of this module have the fields of TensorFlow's, with text as bytes
    from google.protobuf.descriptor_pb2 import DescriptorProto
    from tensorflow.core.framework.node_def_pb2 import NodeDef

# message: {field: (number, type)}; "*" repeats, "map" is a map from string.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "SavedModel": {"meta_graphs": (2, "*MetaGraph")},
    "MetaGraph": {
        "meta_info_def": (1, "MetaInfo"), "graph_def": (2, "Graph"), "saver_def": (3, "Saver"),
        "collection_def": (4, "map Collection"), "signature_def": (5, "map Signature"),
        "object_graph_def": (7, "ObjectGraph"),
    },
    "MetaInfo": {"tags": (4, "*string"), "tensorflow_version": (5, "string")},
    "Graph": {"node": (1, "*Node"), "library": (2, "Library")},
    "Node": {"name": (1, "string"), "op": (2, "string"), "input": (3, "*string"), "attr": (5, "map Attr")},
    "Attr": {"list": (1, "AttrList"), "s": (2, "string"), "func": (10, "Called")},
    "AttrList": {"func": (9, "*Called")},
    "Called": {"name": (1, "string"), "attr": (2, "map Attr")},
    "Library": {"function": (1, "*Function"), "gradient": (2, "*Gradient")},
    "Gradient": {"function_name": (1, "string"), "gradient_func": (2, "string")},
    "Function": {"signature": (1, "Operator"), "node_def": (3, "*Node")},
    "Operator": {"name": (1, "string"), "input_arg": (2, "*Argument")},
    "Argument": {"name": (1, "string")},
    "Saver": {"filename_tensor_name": (1, "string"), "save_tensor_name": (2, "string"),
              "restore_op_name": (3, "string")},
    "Collection": {"node_list": (1, "Names")},
    "Names": {"value": (1, "*string")},
    "Signature": {"inputs": (1, "map Tensor"), "outputs": (2, "map Tensor")},
    "Tensor": {"name": (1, "string"), "dtype": (2, "int32"), "tensor_shape": (3, "Shape"), "coo_sparse": (4, "Sparse"),
               "composite_tensor": (5, "Composite")},
    "Sparse": {"values_tensor_name": (1, "string"), "indices_tensor_name": (2, "string"),
               "dense_shape_tensor_name": (3, "string")},
    "Composite": {"components": (2, "*Tensor")},
    "Shape": {"dim": (2, "*Dim"), "unknown_rank": (3, "bool")},
    "Dim": {"size": (1, "int64")},
    "ObjectGraph": {"nodes": (1, "*Object"), "concrete_functions": (2, "map Concrete")},
    "Object": {"children": (1, "*Child"), "function": (6, "ObjectFunction")},
    "Child": {"node_id": (1, "int32"), "local_name": (2, "string")},
    "ObjectFunction": {"concrete_functions": (1, "*string")},
    "Concrete": {"canonicalized_input_signature": (3, "Structure")},
    "Structure": {"type_spec_value": (34, "TypeSpec"), "list_value": (51, "Structures"),
                  "tuple_value": (52, "Structures"), "dict_value": (53, "Fields")},
    "Structures": {"values": (1, "*Structure")},
    "Fields": {"fields": (1, "map Structure")},
    "TypeSpec": {"type_spec_class_name": (3, "string")},
}  # fmt: skip
_SCALARS = {"string": 12, "int32": 5, "int64": 3, "bool": 8}  # text as bytes: names need not be UTF-8


def called_names(node: NodeDef) -> Iterator[bytes]:
    """Yield the names that a node runs: its operator, and the functions that its attributes name, recursively."""
    pending = list(node.attr.values())
    if node.op:
        yield node.op  # a function may be called as an operator of its own name
    while pending:
        attribute = pending.pop()
        for function in (attribute.func, *attribute.list.func):
            if function.name:
                yield function.name
            pending += function.attr.values()


@cache
def message_class(name: str) -> Any:
    """Return the message class of a name such as "SavedModel"; texts in its messages are bytes."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="transload_saved_model.proto", package="transload", syntax="proto3")
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for field, (number, kind) in fields.items():
            _add_field(message, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"transload.{name}"))


def _add_field(message: DescriptorProto, name: str, number: int, kind: str) -> None:
    repeated = kind.startswith(("*", "map "))
    target = kind.removeprefix("*").removeprefix("map ")
    field = message.field.add(name=name, number=number, label=3 if repeated else 1)
    if kind.startswith("map "):  # on the wire a map is a repeated pair
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=1, type=9)
        entry.field.add(name="value", number=2, label=1, type=11, type_name=f".transload.{target}")
        field.type, field.type_name = 11, f".transload.{message.name}.{entry.name}"
    elif target in _SCALARS:
        field.type = _SCALARS[target]
    else:
        field.type, field.type_name = 11, f".transload.{target}"
