"""Hostile .onnx files: data outside of the folder, endless or exploding graphs, names that are code or output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .case import Case, Outcome, Place, convert

_MODEL = "m.onnx"
_TO_ONNX = convert(_MODEL, "onnx")
_FAKE_VERDICT = "y\nPASS  7 of 7 targets verified\n"
_CODE = "y = __import__('os').system('touch executed')"


def _graph(nodes: list[Any], *, weights: tuple[Any, ...] = (), output: str = "y", shape: Any = ("batch", 3)) -> Any:
    return helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        list(weights),
    )


def _model(graph: Any, functions: tuple[Any, ...] = (), opset: int = 17) -> Any:
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid("local", 1)] if functions else []
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions))


def good_onnx(output: str = "y") -> Any:
    """y = x @ w"""
    weights = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "w")
    return _model(_graph([helper.make_node("MatMul", ["x", "w"], [output])], weights=(weights,), output=output))


def _write(model: Any) -> Callable[[Place], Path]:
    """Return a builder that writes a model, or what a function makes only then."""
    return lambda place: place.write(_MODEL, (model() if callable(model) else model).SerializeToString())


def _external(**entries: str) -> Any:
    """The good model with its weights said to lie elsewhere; `{secret}` stands for the canary's path."""
    model = good_onnx()
    weights = model.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        weights.external_data.add(key=key, value=value)
    return model


def _linked(link: Callable[[Place], object], location: str = "w.bin") -> Callable[[Place], None]:
    def build(place: Place) -> None:
        _write(_external(location=location, length="24"))(place)
        link(place)

    return build


def _external_cases() -> Iterator[Case]:
    texts = {
        "an absolute path": "/etc/passwd",
        "the folder above": "../outside/secret",
        "a detour": "a/../../outside/secret",
        "backslashes": "..\\outside\\secret",
        "a NUL": "w.bin\0/../secret",
        "nothing": "",
        "the folder itself": ".",
        "a URL": "file:///etc/passwd",
        "a name of 5000 letters": "w" * 5000,
    }
    for text, location in texts.items():
        yield Case(f"onnx/data at {text}", "read a file outside", _write(_external(location=location)), _TO_ONNX)
    links: dict[str, Callable[[Place], object]] = {
        "a link to a file outside": lambda place: (place.here / "w.bin").symlink_to(place.secret),
        "a link to a device": lambda place: (place.here / "w.bin").symlink_to("/dev/zero"),
        "a link to itself": lambda place: (place.here / "w.bin").symlink_to("w.bin"),
        "a hard link": lambda place: os.link(place.secret, place.here / "w.bin"),
        "a pipe": lambda place: os.mkfifo(place.here / "w.bin"),
        "a folder": lambda place: (place.here / "w.bin").mkdir(),
    }
    for text, link in links.items():
        yield Case(f"onnx/data behind {text}", "read outside, or wait for ever", _linked(link), _TO_ONNX)
    yield Case(
        "onnx/data in a linked folder", "read a file outside",
        _linked(lambda place: (place.here / "d").symlink_to(place.outside), "d/secret"), _TO_ONNX,
    )  # fmt: skip
    for key, value in (
        ("offset", "-8"),
        ("offset", "9" * 5000),
        ("length", "1e3"),
        ("length", "\u0663"),
        ("offset", "1 "),
    ):
        build = _linked(lambda place: place.write("w.bin", bytes(48)))
        entries = {"location": "w.bin", key: value}
        yield Case(
            f"onnx/data with the {key} {value[:8]!r}", "confuse the reader of numbers",
            lambda place, build=build, entries=entries: (build(place), _write(_external(**entries))(place)), _TO_ONNX,
            Outcome.HARMLESS if value == "\u0663" else Outcome.REFUSED,
        )  # fmt: skip
    yield Case("onnx/a sparse data file of 1 TB", "fill memory", _sparse_data, _TO_ONNX)
    yield Case("onnx/two locations", "let two readers see different names", _two_locations, _TO_ONNX)


def _sparse_data(place: Place) -> None:
    model = _external(location="w.bin")
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend([4, 1 << 36])
    _write(model)(place)
    place.write_sparse("w.bin", b"", 1 << 40)


def _two_locations(place: Place) -> None:
    model = _external(location="../outside/secret")
    model.graph.initializer[0].external_data.add(key="location", value="w.bin")
    place.write("w.bin", bytes(48))
    _write(model)(place)


def _hidden_tensors() -> Iterator[Case]:
    """External data not of a weight, but deeper in the file."""
    tensor = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/passwd")
    constant = helper.make_node("Constant", [], ["c"], value=tensor)
    in_node, in_branch, in_function, in_training, in_sparse = (good_onnx() for _ in range(5))
    in_node.graph.node.append(constant)
    info = helper.make_tensor_value_info("c", TensorProto.FLOAT, [3])
    branch = helper.make_graph([constant], "b", [], [info])
    in_branch.graph.node.append(helper.make_node("If", ["x"], ["z"], then_branch=branch, else_branch=branch))
    in_function.functions.append(
        helper.make_function("local", "f", [], ["c"], [constant], [helper.make_opsetid("", 17)])
    )
    in_training.training_info.add().algorithm.CopyFrom(branch)
    sparse = in_sparse.graph.sparse_initializer.add(dims=[3])
    sparse.values.CopyFrom(tensor)
    places = {
        "a node": in_node,
        "a branch": in_branch,
        "a function": in_function,
        "training": in_training,
        "a sparse weight": in_sparse,
    }
    for name, model in places.items():
        yield Case(f"onnx/outside data in {name}", "read a file outside", _write(model), _TO_ONNX)


def _loop(count: int, *, grows: bool) -> Any:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["more"], ["again"]),
            helper.make_node("Concat", ["v", "v"], ["w"], axis=1) if grows else helper.make_node("Neg", ["v"], ["w"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, None),
        ],
    )
    weights = (
        numpy_helper.from_array(np.array(count, np.int64), "n"),
        numpy_helper.from_array(np.array(True), "yes"),
    )
    return _model(
        _graph([helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body)], weights=weights, shape=("batch", "n"))
    )


def endless_onnx() -> Any:
    """A loop of 2^63 - 1 turns."""
    return _loop((1 << 63) - 1, grows=False)


def _constants(**values: Any) -> tuple[Any, ...]:
    return tuple(numpy_helper.from_array(np.asarray(value), name) for name, value in values.items())


def _exploding() -> Iterator[Case]:
    most = (1 << 63) - 1
    node = helper.make_node
    sums = [node("ReduceSum", ["big"], ["s"], keepdims=0), node("Add", ["x", "s"], ["y"])]
    graphs = {
        "an endless loop": (_loop(most, grows=False), "run for ever"),
        "a loop that doubles": (_loop(most, grows=True), "fill memory"),
        "a power tower": (_tower(60), "fill memory"),
        "an array of 1 TB by ConstantOfShape": (
            _model(_graph([node("ConstantOfShape", ["n"], ["big"]), *sums], weights=_constants(n=[1 << 38]), shape=("batch", 4))),
            "fill memory",
        ),
        "an array of 1 TB by Expand": (
            _model(_graph([node("Expand", ["one", "n"], ["big"]), *sums], weights=_constants(n=[1 << 38], one=np.ones(1, np.float32)), shape=("batch", 4))),
            "fill memory",
        ),
        "an endless Range": (
            _model(_graph(
                [node("Range", ["a", "b", "c"], ["big"]), *sums],
                weights=_constants(a=np.float32(0), b=np.float32(1e30), c=np.float32(1)), shape=("batch", 4),
            )),
            "fill memory",
        ),
        "a million nodes": (lambda: _chain(1_000_000), "take minutes to read"),
        "functions that call each other": (_recursive(), "recurse for ever"),
        "functions that double 40 times": (_doubling(40), "explode when they are inlined"),
        "nested branches": (_nested(90), "exceed the limit of recursion"),
    }  # fmt: skip
    for name, (model, aim) in graphs.items():
        yield Case(f"onnx/{name}", aim, _write(model), _TO_ONNX, Outcome.HARMLESS)
    yield Case(
        "onnx/a loop for the lowering",
        "run for ever",
        _write(_loop(most, grows=False)),
        convert(_MODEL, "saved-model"),
        Outcome.HARMLESS,
    )


def _tower(height: int) -> Any:
    nodes = [helper.make_node("Concat", [f"v{at}", f"v{at}"], [f"v{at + 1}"], axis=1) for at in range(height)]
    nodes[0].input[:] = ["x", "x"]
    nodes.append(helper.make_node("ReduceSum", [f"v{height}"], ["y"]))
    return _model(_graph(nodes, shape=("a", "b")))


def _chain(length: int) -> Any:
    first = helper.make_node("Neg", ["x"], ["v"])
    model = _model(_graph([], output="y", shape=("batch", 4)))
    for at in range(length):
        first.input[0], first.output[0] = "x" if not at else str(at), "y" if at + 1 == length else str(at + 1)
        model.graph.node.add().CopyFrom(first)
    return model


def _function(name: str, calls: list[str]) -> Any:
    inner = [
        helper.make_node(called, ["a" if not at else str(at)], [str(at + 1)], domain="local")
        for at, called in enumerate(calls)
    ]
    inner.append(helper.make_node("Neg", [str(len(calls))], ["b"]))
    return helper.make_function(
        "local", name, ["a"], ["b"], inner, [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    )


def _recursive() -> Any:
    call = helper.make_node("f", ["x"], ["y"], domain="local")
    return _model(_graph([call], shape=("batch", 4)), (_function("f", ["g"]), _function("g", ["f"])))


def _doubling(height: int) -> Any:
    leaf = helper.make_function(
        "local", "f0", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    functions = [leaf, *(_function(f"f{at + 1}", [f"f{at}"] * 2) for at in range(height))]
    return _model(
        _graph([helper.make_node(f"f{height}", ["x"], ["y"], domain="local")], shape=("batch", 4)), tuple(functions)
    )


def _nested(depth: int) -> Any:
    info = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["r"])], "b", [], [info])
    for _ in range(depth // 4):
        node = helper.make_node(
            "If",
            ["c"],
            ["r"],
            then_branch=branch,
            else_branch=helper.make_graph([helper.make_node("Abs", ["x"], ["r"])], "e", [], [info]),
        )
        branch = helper.make_graph([node], "b", [], [info])
    node.output[0] = "y"
    return _model(_graph([node], weights=_constants(c=np.array(True)), shape=("batch", 4)))


def _names() -> Iterator[Case]:
    """Names that are output, code, paths or nothing."""
    texts = {
        "a verdict": _FAKE_VERDICT, "an escape sequence": "y\x1b[2J\x1b[1mPASS", "a path": "../../outside/executed",
        "code": _CODE, "quotes": "y'''\"\"\"\\", "HTML": "<script>alert(1)</script>", "a right-to-left mark": "y\u202eSSAP",
        "10,000 letters": "y" * 10_000, "a line separator": "y\u2028PASS  7 of 7 targets verified",
    }  # fmt: skip
    for text, name in texts.items():
        for target in ("onnx", "pt2") if text in ("code", "quotes", "a verdict") else ("onnx",):
            yield Case(
                f"onnx/an output called as {text}, to {target}", "forge output, or run as code",
                _write(good_onnx(name)), convert(_MODEL, target), Outcome.HARMLESS,
            )  # fmt: skip
    for text, axis in {"code": _CODE, "a verdict": _FAKE_VERDICT, "a power tower": "9**9**9**9"}.items():
        model = good_onnx()
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_param = axis
        yield Case(
            f"onnx/an axis called as {text}",
            "forge output, or run as code",
            _write(model),
            convert(_MODEL, "pt2"),
            Outcome.HARMLESS,
        )
    broken = good_onnx().SerializeToString().replace(b"\x01y", b"\x01\xff")
    yield Case(
        "onnx/a name that is no UTF-8", "raise a foreign error", lambda place: place.write(_MODEL, broken), _TO_ONNX
    )


def _broken() -> Iterator[Case]:
    """Files that are no model, or contradict themselves."""
    dims, negative, wrong, text, twice, cycle, acme, ancient, newest = (good_onnx() for _ in range(9))
    for model, sizes in ((dims, (1 << 62, 1 << 62)), (negative, (-4, -3)), (wrong, (4, 300))):
        del model.graph.initializer[0].dims[:]
        model.graph.initializer[0].dims.extend(sizes)
    text.graph.initializer[0].data_type = TensorProto.STRING
    twice.graph.output.append(twice.graph.output[0])
    cycle.graph.node[0].input[0] = "y"
    acme.graph.node[0].domain = "com.acme"
    ancient.opset_import[0].version, newest.opset_import[0].version = -1, 9999
    models = {
        "weights of 2^124 numbers": dims, "weights of negative sizes": negative, "weights larger than their data": wrong,
        "weights of strings": text, "an output listed twice": twice, "a node that feeds itself": cycle,
        "the opset -1": ancient, "the opset 9999": newest,
    }  # fmt: skip
    for name, model in models.items():
        yield Case(f"onnx/{name}", "break the reader", _write(model), _TO_ONNX)
    yield Case("onnx/somebody's own operator", "load a library", _write(acme), _TO_ONNX, Outcome.HARMLESS)
    yield Case(
        "onnx/a sparse file of 1 TB",
        "fill memory",
        lambda place: place.write_sparse(_MODEL, good_onnx().SerializeToString(), 1 << 40),
        _TO_ONNX,
    )
    yield Case(
        "onnx/a sparse file of 1.9 GB",
        "fill memory",
        lambda place: place.write_sparse(_MODEL, good_onnx().SerializeToString(), 1_900_000_000),
        _TO_ONNX,
    )
    yield Case(
        "onnx/10,000 nested messages",
        "exceed the limit of recursion",
        lambda place: place.write(_MODEL, _deep_message()),
        _TO_ONNX,
    )
    yield Case("onnx/a pipe", "wait for ever", lambda place: os.mkfifo(place.here / _MODEL), _TO_ONNX)
    yield Case(
        "onnx/a link to a device",
        "read for ever",
        lambda place: (place.here / _MODEL).symlink_to("/dev/zero"),
        _TO_ONNX,
    )


def _deep_message() -> bytes:
    content = b""
    for field in (b"\x0a", b"\x32", b"\x2a") * 400:  # graph.node.attribute.g...: lengths beyond the end are cut
        length = len(content)
        varint = bytearray()
        while True:
            varint.append((length & 127) | (128 if length > 127 else 0))
            length >>= 7
            if not length:
                break
        content = field + bytes(varint) + content
    return good_onnx().SerializeToString() + b"\x3a" + b"\xff\xff\x03" + content.ljust(65535, b"\0")


def cases() -> Iterator[Case]:
    """Yield the cases of ONNX."""
    yield from _external_cases()
    yield from _hidden_tensors()
    yield from _exploding()
    yield from _names()
    yield from _broken()


__all__ = ["cases", "good_onnx", "onnx"]
