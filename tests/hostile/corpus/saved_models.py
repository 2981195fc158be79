"""Hostile SavedModels: operators that write, read or wait, in every place that something runs from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .case import Case, Outcome, Place, convert

_FOLDER = "m"
_WORDS = convert(_FOLDER, "saved-model")
_TYPE = "type.googleapis.com/"


def save(place: Place, compute: Callable[[Any, Any], Any], *, shape: tuple[int | None, ...] = (None, 4)) -> Path:
    """Save a model that computes y from x and a variable."""
    import tensorflow as tf

    module = tf.Module()
    module.weight = tf.Variable(tf.ones([4, 3]))
    spec = tf.TensorSpec(shape, tf.float32, name="x")
    serve = tf.function(lambda x: {"y": compute(module, x)}, input_signature=[spec])
    module.serve = serve
    folder = place.here / _FOLDER
    tf.saved_model.save(module, str(folder), signatures={"serving_default": serve})
    return folder


def good_saved_model(place: Place) -> Path:
    """Save y = x @ w."""
    return save(place, lambda module, x: x @ module.weight)


def _edited(change: Callable[[Any, Place], object]) -> Callable[[Place], None]:
    """Return a builder of the good model with its message changed."""

    def build(place: Place) -> None:
        from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

        file = good_saved_model(place) / "saved_model.pb"
        message = SavedModel.FromString(file.read_bytes())
        change(message, place)
        file.write_bytes(message.SerializeToString())

    return build


def _writes(place: Place) -> Any:
    import tensorflow as tf

    return tf.raw_ops.WriteFile(filename=str(place.marker), contents="x")


def _read(place: Place, contents: Any) -> Any:
    """The bytes of a text as a row of floats, so that they get into the answers."""
    import tensorflow as tf

    return tf.cast(tf.io.decode_raw(contents, tf.uint8), tf.float32)[None, :]


def _computed() -> Iterator[Case]:
    """Operators that the served function itself calls."""
    import tensorflow as tf

    ops = tf.raw_ops

    def lines(place: Place, x: Any) -> Any:
        total = tf.data.TextLineDataset(str(place.secret)).reduce(tf.constant(""), lambda a, b: a + b)
        return x[:, :1] * 0 + _read(place, total)

    def listed(place: Place, x: Any) -> Any:
        return x + tf.cast(tf.size(ops.MatchingFiles(pattern=f"{place.outside}/*")), tf.float32)

    def table(place: Place, x: Any) -> Any:
        handle = ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64)
        read = ops.InitializeTableFromTextFileV2(
            table_handle=handle, filename=str(place.secret), key_index=-2, value_index=-1
        )
        with tf.control_dependencies([read]):
            return x + tf.cast(ops.LookupTableSizeV2(table_handle=handle), tf.float32)

    def saved(place: Place, x: Any) -> Any:
        with tf.control_dependencies(
            [ops.SaveV2(prefix=str(place.marker), tensor_names=["a"], shape_and_slices=[""], tensors=[x])]
        ):
            return x + 0

    def after(operation: Callable[[Place], Any]) -> Callable[[Place, Any], Any]:
        def compute(place: Place, x: Any) -> Any:
            with tf.control_dependencies([operation(place)]):
                return x + 0

        return compute

    payloads: dict[str, tuple[Callable[[Place, Any], Any], str]] = {
        "WriteFile": (after(_writes), "write a file"),
        "PrintV2": (after(lambda place: tf.print("x", output_stream=f"file://{place.marker}")), "write a file"),
        "SaveV2": (saved, "write a file"),
        "MergeV2Checkpoints": (after(lambda place: ops.MergeV2Checkpoints(checkpoint_prefixes=[str(place.secret)], destination_prefix=str(place.marker))), "delete a file"),
        "ReadFile": (lambda place, x: x[:, :1] * 0 + _read(place, tf.io.read_file(str(place.secret))), "read a file"),
        "MatchingFiles": (listed, "list files"),
        "TextLineDataset": (lines, "read a file"),
        "a table from a text file": (table, "read a file"),
        "FixedLengthRecordDataset": (lambda place, x: x + tf.cast(tf.data.FixedLengthRecordDataset(str(place.secret), 1).reduce(0, lambda n, _: n + 1), tf.float32), "read a file"),
        "WholeFileReaderV2": (lambda place, x: x[:, :1] * 0 + _read(place, ops.ReaderReadV2(reader_handle=ops.WholeFileReaderV2(), queue_handle=_queue(place)).value), "read a file"),
        "ImmutableConst": (lambda place, x: x + tf.reduce_sum(tf.cast(ops.ImmutableConst(dtype=tf.uint8, shape=[8], memory_region_name=str(place.secret)), tf.float32)), "map a file"),
        "RestoreV2": (lambda place, x: x + ops.RestoreV2(prefix=str(place.secret), tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.float32])[0][0], "read a file"),
        "PyFunc": (lambda place, x: tf.ensure_shape(tf.numpy_function(lambda t: t, [x], tf.float32), [None, 4]), "run Python"),
        "EagerPyFunc": (lambda place, x: tf.ensure_shape(tf.py_function(lambda t: t, [x], tf.float32), [None, 4]), "run Python"),
        "DebugIdentityV2": (lambda place, x: ops.DebugIdentityV2(input=x, debug_urls=[f"file://{place.outside}"], tensor_debug_mode=2), "write a file"),
        "a summary writer": (after(lambda place: ops.CreateSummaryFileWriter(writer=ops.SummaryWriter(), logdir=str(place.outside), max_queue=1, flush_millis=1, filename_suffix="x")), "write a file"),
        "SaveDatasetV2": (after(lambda place: ops.SaveDatasetV2(input_dataset=tf.data.Dataset.range(3)._variant_tensor, path=str(place.marker), shard_func_other_args=[], shard_func=_shard(), output_types=[tf.int64], output_shapes=[[]])), "write a file"),
        "a WriteFile in a branch": (lambda place, x: tf.cond(tf.reduce_sum(x) > 1e9, lambda: after(_writes)(place, x), lambda: x), "write a file"),
        "a WriteFile in a loop": (lambda place, x: tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, after(_writes)(place, v)), [0, x])[1], "write a file"),
        "a WriteFile in a map": (lambda place, x: tf.map_fn(lambda row: after(_writes)(place, row), x), "write a file"),
    }  # fmt: skip
    for name, (compute, aim) in payloads.items():
        yield Case(
            f"saved-model/{name}", aim,
            lambda place, compute=compute: save(place, lambda module, x: compute(place, x)),
            _WORDS,
        )  # fmt: skip


def _queue(place: Place) -> Any:
    import tensorflow as tf

    queue = tf.raw_ops.FIFOQueueV2(component_types=[tf.string], shapes=[[]], capacity=1)
    with tf.control_dependencies([tf.raw_ops.QueueEnqueueV2(handle=queue, components=[str(place.secret)])]):
        return tf.identity(queue)


@cache
def _shard() -> Any:
    import tensorflow as tf

    return tf.function(lambda i: tf.constant(0, tf.int64)).get_concrete_function(tf.TensorSpec([], tf.int64))


def _endless() -> Iterator[Case]:
    import tensorflow as tf

    bodies: dict[str, tuple[Callable[[Any], Any], str]] = {
        "an endless loop": (lambda x: tf.while_loop(lambda v: True, lambda v: (v + 1,), [x])[0], "run for ever"),
        "an endless loop for large values": (
            lambda x: tf.while_loop(lambda v: tf.reduce_any(tf.abs(v) > 100.0), lambda v: (v + 1,), [x])[0], "run for ever",
        ),
        "a loop that doubles": (
            lambda x: tf.while_loop(
                lambda v: True, lambda v: (tf.concat([v, v], 1),), [x], shape_invariants=[tf.TensorShape([None, None])]
            )[0],
            "fill memory",
        ),
        "an array of 1 TB": (lambda x: x + tf.reduce_sum(tf.fill([tf.size(x) // tf.size(x) * 262144, 1048576], 1.0)), "fill memory"),
        "a power tower": (_tower, "fill memory"),
        "an endless Range": (lambda x: x + tf.reduce_sum(tf.range(0.0, tf.abs(x[0, 0]) + 1e30, 1.0)), "fill memory"),
    }  # fmt: skip
    for name, (body, aim) in bodies.items():
        yield Case(
            f"saved-model/{name}", aim,
            lambda place, body=body: save(place, lambda module, x: tf.ensure_shape(body(x), [None, None])),
            _WORDS, Outcome.HARMLESS,
        )  # fmt: skip


def _tower(x: Any) -> Any:
    import tensorflow as tf

    for _ in range(60):
        x = tf.concat([x, x], 1)
    return tf.reduce_sum(x, 1, keepdims=True)


def _node(graph: Any, op: str, name: str, *inputs: str, **attributes: Any) -> Any:
    node = graph.node.add(op=op, name=name, input=list(inputs))
    for key, value in attributes.items():
        node.attr[key].CopyFrom(value)
    return node


def _text(graph: Any, name: str, value: str) -> None:
    import tensorflow as tf
    from tensorflow.core.framework.attr_value_pb2 import AttrValue

    tensor = tf.make_tensor_proto(value)
    _node(graph, "Const", name, value=AttrValue(tensor=tensor), dtype=AttrValue(type=tensor.dtype))


def _write_node(graph: Any, place: Place, name: str = "payload") -> None:
    _text(graph, f"{name}/file", str(place.marker))
    _text(graph, f"{name}/text", "x")
    _node(graph, "WriteFile", name, f"{name}/file", f"{name}/text")


def _saver_as(collection: str) -> Callable[[Any, Place], None]:
    """Let a collection of entry points name the saver's own SaveV2."""

    def change(message: Any, place: Place) -> None:
        meta = message.meta_graphs[0]
        saver = meta.saver_def.save_tensor_name.partition(":")[0]
        for node in meta.graph_def.node:
            if node.name == meta.saver_def.filename_tensor_name.partition(":")[0]:
                node.Clear()
                node.op, node.name = "Const", meta.saver_def.filename_tensor_name.partition(":")[0]
                other = type(meta.graph_def)()
                _text(other, node.name, str(place.marker))
                node.CopyFrom(other.node[0])
        _name_in(meta, collection, saver)

    return change


def _name_in(meta: Any, collection: str, node: str) -> None:
    meta.collection_def[collection].node_list.value.append(node)


def _entries() -> Iterator[Case]:
    """Places of the message that something runs from."""

    def in_collection(name: str) -> Callable[[Any, Place], None]:
        def change(message: Any, place: Place) -> None:
            meta = message.meta_graphs[0]
            _write_node(meta.graph_def, place)
            _name_in(meta, name, "payload")

        return change

    def unused(message: Any, place: Place) -> None:
        function = message.meta_graphs[0].graph_def.library.function.add()
        function.signature.name = "nobody_calls_it"
        other = type(message.meta_graphs[0].graph_def)()
        _write_node(other, place)
        function.node_def.extend(other.node)

    def known_name(message: Any, place: Place) -> None:
        unused(message, place)
        message.meta_graphs[0].graph_def.library.function[-1].signature.name = "Relu"

    def second_graph(message: Any, place: Place) -> None:
        message.meta_graphs.add().CopyFrom(message.meta_graphs[0])
        _write_node(message.meta_graphs[1].graph_def, place)

    def init_op(message: Any, place: Place) -> None:
        meta = message.meta_graphs[0]
        _write_node(meta.graph_def, place)
        meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name = "payload"

    def saver_init_op(message: Any, place: Place) -> None:
        meta = message.meta_graphs[0]
        _saver_as("unused")(message, place)
        name = meta.saver_def.save_tensor_name
        meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name = name

    def train_op(message: Any, place: Place) -> None:
        meta = message.meta_graphs[0]
        _saver_as("unused")(message, place)
        meta.signature_def["__saved_model_train_op"].outputs[
            "__saved_model_train_op"
        ].name = meta.saver_def.save_tensor_name

    def gradient(message: Any, place: Place) -> None:
        unused(message, place)
        library = message.meta_graphs[0].graph_def.library
        library.gradient.add(function_name=library.function[0].signature.name, gradient_func="nobody_calls_it")

    def collection_bytes(message: Any, place: Place) -> None:
        message.meta_graphs[0].collection_def["saved_model_main_op"].bytes_list.value.append(b"StatefulPartitionedCall")

    def nameless(message: Any, place: Place) -> None:
        _saver_as("saved_model_main_op")(message, place)
        message.meta_graphs[0].saver_def.ClearField("save_tensor_name")

    changes: dict[str, Callable[[Any, Place], None]] = {
        **{f"the saver as {name}": _saver_as(name) for name in ("saved_model_main_op", "legacy_init_op", "init_op", "table_initializer", "local_init_op", "ready_op")},
        **{f"WriteFile in {name}": in_collection(name) for name in ("saved_model_main_op", "legacy_init_op")},
        "a function that nobody calls": unused, "a function called as an operator": known_name,
        "a second graph": second_graph, "WriteFile as init operation": init_op, "the saver as init operation": saver_init_op,
        "the saver as train operation": train_op, "a gradient": gradient, "the saver without its name": nameless,
    }  # fmt: skip
    for name, change in changes.items():
        yield Case(f"saved-model/{name}", "write a file when it is loaded", _edited(change), _WORDS,
                   outcome=Outcome.HARMLESS if name in ("the saver as ready_op", "the saver as local_init_op", "the saver as table_initializer", "the saver as init_op") else Outcome.REFUSED)  # fmt: skip
    yield Case(
        "saved-model/a collection of bytes", "confuse the loader", _edited(collection_bytes), _WORDS, Outcome.HARMLESS
    )


def _messages() -> Iterator[Case]:
    """Broken or contradictory messages."""

    def cycle(message: Any, place: Place) -> None:
        graph = message.meta_graphs[0].graph_def
        _node(graph, "NoOp", "a", "^b")
        _node(graph, "NoOp", "b", "^a")

    def recursive(message: Any, place: Place) -> None:
        from tensorflow.core.framework.attr_value_pb2 import AttrValue

        library = message.meta_graphs[0].graph_def.library
        function = library.function[0]
        for node in function.node_def:
            node.attr["f"].CopyFrom(AttrValue(func=AttrValue().func.__class__(name=function.signature.name)))

    def million(message: Any, place: Place) -> None:
        graph = message.meta_graphs[0].graph_def
        for at in range(1_000_000):
            graph.node.add(op="NoOp", name=f"n{at}")

    def forged_name(message: Any, place: Place) -> None:
        served = message.meta_graphs[0].signature_def["serving_default"]
        served.outputs["y\nPASS  7 of 7 targets verified\n"].CopyFrom(served.outputs["y"])
        del served.outputs["y"]

    def nodes_of_nothing(message: Any, place: Place) -> None:
        message.meta_graphs[0].signature_def["serving_default"].outputs["y"].name = "nothing:7"

    def strange_shape(message: Any, place: Place) -> None:
        dim = message.meta_graphs[0].signature_def["serving_default"].inputs["x"].tensor_shape.dim
        dim[1].size = 1 << 62

    def deep_attributes(message: Any, place: Place) -> None:
        attribute = message.meta_graphs[0].graph_def.node[0].attr["f"]
        for _ in range(45):
            attribute = attribute.func.attr["f"]

    def object_cycle(message: Any, place: Place) -> None:
        nodes = message.meta_graphs[0].object_graph_def.nodes
        nodes[0].children.add(node_id=0, local_name="again")
        nodes[0].children.add(node_id=1 << 20, local_name="beyond")

    changes: dict[str, tuple[Callable[[Any, Place], None], Outcome]] = {
        "nodes that wait for each other": (cycle, Outcome.HARMLESS),
        "a function that calls itself": (recursive, Outcome.HARMLESS),
        "a million nodes": (million, Outcome.HARMLESS), "an output called as a verdict": (forged_name, Outcome.HARMLESS),
        "an output of a node that is not there": (nodes_of_nothing, Outcome.HARMLESS),
        "an input of 2^62 numbers": (strange_shape, Outcome.HARMLESS),
        "deep attributes": (deep_attributes, Outcome.HARMLESS), "objects that hold themselves": (object_cycle, Outcome.HARMLESS),
    }  # fmt: skip
    for name, (change, outcome) in changes.items():
        yield Case(f"saved-model/{name}", "break or occupy the reader", _edited(change), _WORDS, outcome)


def _folders() -> Iterator[Case]:
    """Files of the folder that are not what they seem."""

    def changed(change: Callable[[Place, Path], object]) -> Callable[[Place], object]:
        return lambda place: change(place, good_saved_model(place))

    def link(place: Place, folder: Path) -> None:
        (folder / "assets" / "x").unlink(missing_ok=True)
        (folder / "assets").mkdir(exist_ok=True)
        (folder / "assets" / "x").symlink_to(place.secret)

    def linked_variables(place: Place, folder: Path) -> None:
        for file in (folder / "variables").iterdir():
            file.rename(place.outside / file.name)
        (folder / "variables").rmdir()
        (folder / "variables").symlink_to(place.outside)

    def broken_index(place: Place, folder: Path) -> None:
        index = folder / "variables" / "variables.index"
        index.write_bytes(index.read_bytes()[:-20] + bytes(20))

    changes: dict[str, tuple[Callable[[Place, Path], object], Outcome]] = {
        "an asset that is a link": (link, Outcome.REFUSED),
        "variables behind a link": (linked_variables, Outcome.REFUSED),
        "a text beside it": (lambda place, folder: (folder / "saved_model.pbtxt").write_text("meta_graphs {}"), Outcome.REFUSED),
        "a chunked one beside it": (lambda place, folder: (folder / "saved_model.cpb").write_bytes(b"x"), Outcome.REFUSED),
        "a broken index": (broken_index, Outcome.HARMLESS),
        "a pipe among the assets": (lambda place, folder: ((folder / "assets").mkdir(exist_ok=True), os.mkfifo(folder / "assets" / "x")), Outcome.REFUSED),
        "a sparse file of 1 TB": (lambda place, folder: os.truncate(folder / "saved_model.pb", 1 << 40), Outcome.REFUSED),
        "sparse variables of 1 TB": (lambda place, folder: os.truncate(next((folder / "variables").glob("*.data*")), 1 << 40), Outcome.REFUSED),
        "random bytes": (lambda place, folder: (folder / "saved_model.pb").write_bytes(np.random.default_rng(0).bytes(5000)), Outcome.REFUSED),
        "no variables": (lambda place, folder: (folder / "variables" / "variables.index").unlink(), Outcome.REFUSED),
    }  # fmt: skip
    for name, (change, outcome) in changes.items():
        yield Case(f"saved-model/{name}", "read outside, or wait", changed(change), _WORDS, outcome)


def cases() -> Iterator[Case]:
    """Yield the cases of SavedModel."""
    yield from _entries()
    yield from _messages()
    yield from _folders()
    yield from _computed()
    yield from _endless()
