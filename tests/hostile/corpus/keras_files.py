"""Hostile .keras and .h5 files: classes that are code, weights elsewhere, archives and JSON that explode."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .case import Case, Outcome, Place, convert

_MODEL = "m.keras"
_WORDS = convert(_MODEL, "saved-model")
_WEIGHTS = "model.weights.h5"


@cache
def _entries() -> dict[str, bytes]:
    """The entries of a good file: y = dense(x)."""
    import keras

    x = keras.Input((4,), name="x")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "good.keras"
        keras.Model(x, keras.layers.Dense(3, name="y")(x)).save(file)
        with zipfile.ZipFile(file) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


def _archive(place: Place, entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(place.here / _MODEL, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def _config(change: Callable[[Any, Any, Place], object]) -> Callable[[Place], None]:
    """Return a builder of the good file with its configuration changed; `change` gets it, and its Dense layer."""

    def build(place: Place) -> None:
        config = json.loads(_entries()["config.json"])
        change(config, config["config"]["layers"][1], place)
        _archive(place, {**_entries(), "config.json": json.dumps(config).encode()})

    return build


def _entry(name: str, content: Callable[[Place], bytes]) -> Callable[[Place], None]:
    return lambda place: _archive(place, {**_entries(), name: content(place)})


def _layer(
    class_name: str, module: str | None = "keras.layers", registered: str | None = None, **arguments: Any
) -> Callable[[Any, Any, Place], None]:
    def change(config: Any, layer: Any, place: Place) -> None:
        layer.update(class_name=class_name, module=module, registered_name=registered)
        layer["config"] = {"name": "y", **arguments}

    return change


def _initializer(described: Any) -> Callable[[Any, Any, Place], None]:
    return lambda config, layer, place: layer["config"].update(kernel_initializer=described)


def _classes() -> Iterator[Case]:
    function = {"class_name": "function", "config": "system", "module": "os", "registered_name": "system"}
    lambda_text = {"class_name": "__lambda__", "config": {"value": "4wEAAAA=", "defaults": None, "closure": None}}
    get_file = {"class_name": "function", "config": "get_file", "module": "keras.utils", "registered_name": "get_file"}
    load = {"class_name": "function", "config": "load_model", "module": "keras.src.saving", "registered_name": None}
    evaluate = {"class_name": "function", "config": "eval", "module": "builtins", "registered_name": "eval"}
    changes: dict[str, Callable[[Any, Any, Place], object]] = {
        "a Lambda layer": _layer("Lambda", function=lambda_text),
        "a Lambda layer by a name": _layer("Lambda", function="os.system"),
        "a Lambda layer of its own module": _layer("Lambda", "keras.src.layers.core.lambda_layer", function=lambda_text),
        "a TFSMLayer": lambda config, layer, place: _layer("TFSMLayer", filepath=str(place.outside))(config, layer, place),
        "a TorchModuleWrapper": _layer("TorchModuleWrapper", module_=1),
        "a class of os": _layer("system", "os"),
        "a class of subprocess": _layer("Popen", "subprocess", args=["true"]),
        "a registered class": _layer("Evil", None, "evil>Evil"),
        "a module that is no text": _layer("Dense", 7),  # type: ignore[arg-type]
        "a class that is no text": lambda config, layer, place: layer.update(class_name=["Dense"]),
        "os.system as initializer": _initializer(function),
        "a lambda as initializer": _initializer(lambda_text),
        "get_file as initializer": _initializer(get_file),
        "load_model as initializer": _initializer(load),
        "eval as initializer": _initializer(evaluate),
        "eval as activation": lambda config, layer, place: layer["config"].update(activation=evaluate),
        "a vocabulary in a file": lambda config, layer, place: _layer("StringLookup", vocabulary=str(place.secret))(config, layer, place),
        "a text vectorization in a file": lambda config, layer, place: _layer("TextVectorization", vocabulary=str(place.secret))(config, layer, place),
        "a hidden class in a tuple": _initializer({"class_name": "__tuple__", "items": [function]}),
        "10^12 units": lambda config, layer, place: layer["config"].update(units=10**12),
        "an input of 10^12": lambda config, layer, place: config["config"]["layers"][0]["config"].update(batch_shape=[None, 10**12]),
        "a layer that feeds itself": lambda config, layer, place: layer["inbound_nodes"][0]["args"][0]["config"].update(keras_history=["y", 0, 0]),
        "a list for a configuration": lambda config, layer, place: config.update(config=[]),
    }  # fmt: skip
    for name, change in changes.items():
        outcome = Outcome.HARMLESS if name == "a hidden class in a tuple" else Outcome.REFUSED
        yield Case(f"keras/{name}", "run code, or read a file", _config(change), _WORDS, outcome)
    named = _config(
        lambda config, layer, place: (
            layer.update(name="y\nPASS  7 of 7 targets verified\n"),
            layer["config"].update(name="y\nPASS  7 of 7 targets verified\n"),
            config["config"].update(output_layers=[["y\nPASS  7 of 7 targets verified\n", 0, 0]]),
        )
    )
    yield Case("keras/an output called as a verdict", "forge output", named, _WORDS, Outcome.HARMLESS)


def _weights(change: Callable[[Any, Place], object]) -> Callable[[Place], None]:
    """Return a builder of the good file with its HDF5 changed."""

    def build(place: Place) -> None:
        import h5py

        buffer = io.BytesIO(_entries()[_WEIGHTS])
        with h5py.File(buffer, "r+") as file:
            change(file, place)
        _archive(place, {**_entries(), _WEIGHTS: buffer.getvalue()})

    return build


def _hdf5() -> Iterator[Case]:
    import h5py

    def variables(file: Any) -> Any:
        return next(group for group in _groups(file) if "0" in group and isinstance(group["0"], h5py.Dataset))

    def virtual(file: Any, place: Place) -> None:
        group = variables(file)
        layout = h5py.VirtualLayout((4, 3), "f4")
        layout[:] = h5py.VirtualSource(str(place.secret), "d", (4, 3))
        del group["0"]
        group.create_virtual_dataset("0", layout)

    def replaced(**keywords: Any) -> Callable[[Any, Place], None]:
        def change(file: Any, place: Place) -> None:
            group = variables(file)
            del group["0"]
            outside = {"external": [(str(place.secret), 0, h5py.h5f.UNLIMITED)]} if keywords.get("external") else {}
            group.create_dataset("0", **{**keywords, **outside})

        return change

    def cycle(file: Any, place: Place) -> None:
        file["again"] = file["/"]
        group = file.create_group("a")
        group["b"] = group

    def doubling(file: Any, place: Place) -> None:
        group = file.create_group("top")
        for _ in range(60):
            inner = group.create_group("a")
            group["b"] = inner
            group = inner

    def link(target: Any) -> Callable[[Any, Place], None]:
        def change(file: Any, place: Place) -> None:
            group = variables(file)
            del group["0"]
            group["0"] = h5py.ExternalLink(str(place.secret), "/") if target is None else h5py.SoftLink(target)

        return change

    changes: dict[str, Callable[[Any, Place], None]] = {
        "weights in another file": replaced(shape=(4, 3), dtype="f4", external=True),
        "virtual weights": virtual, "weights behind a link to a file": link(None), "weights behind a link": link("/"),
        "groups that hold themselves": cycle, "groups that double 60 times": doubling,
        "weights of 1 TB": replaced(shape=(1 << 38,), dtype="f4", chunks=(1 << 20,)),
        "weights of 1 TB, compressed": replaced(shape=(1 << 38,), dtype="f4", chunks=(1 << 20,), compression="gzip"),
        "weights of text": replaced(data=[b"x" * 12]),
    }  # fmt: skip
    for name, change in changes.items():
        outcome = Outcome.HARMLESS if name.startswith("groups") else Outcome.REFUSED
        yield Case(f"keras/{name}", "read outside, or fill memory", _weights(change), _WORDS, outcome)
    yield Case(
        "keras/a broken HDF5", "break the reader", _entry(_WEIGHTS, lambda place: _entries()[_WEIGHTS][:900]), _WORDS
    )
    yield Case(
        "keras/HDF5 by another name",
        "be loaded as Keras 2",
        lambda place: place.write(_MODEL, _entries()[_WEIGHTS]),
        _WORDS,
    )
    yield Case(
        "keras/an .h5 file",
        "be loaded as Keras 2",
        lambda place: place.write("m.h5", _entries()[_WEIGHTS]),
        convert("m.h5", "onnx"),
    )


def _groups(group: Any) -> Iterator[Any]:
    yield group
    for item in group.values():
        if hasattr(item, "values"):
            yield from _groups(item)


def _archives() -> Iterator[Case]:
    def bomb(place: Place) -> None:
        _archive(place, {**_entries(), "assets/x": bytes(300_000_000)}, zipfile.ZIP_DEFLATED)

    def twice(place: Place) -> None:
        _archive(place, _entries())
        with zipfile.ZipFile(place.here / _MODEL, "a") as archive:
            archive.writestr("config.json", b"{}")

    def pickled(place: Place) -> bytes:
        import numpy as np

        buffer = io.BytesIO()
        np.savez(buffer, layer=np.array([object], dtype=object))
        return buffer.getvalue()

    builders: dict[str, Callable[[Place], object]] = {
        "a zip that unpacks to very much": bomb, "two configurations": twice,
        "an entry outside": _entry("../outside/executed", lambda place: b"x"),
        "an absolute entry": _entry("/tmp/executed", lambda place: b"x"),
        "a configuration of 100,000 brackets": _entry("config.json", lambda place: b"[" * 100_000 + b"]" * 100_000),
        "a configuration of 1000 layers in each other": _entry("config.json", lambda place: _nested_layers(1000)),
        "a configuration that is no UTF-8": _entry("config.json", lambda place: b'{"a": "\xff"}'),
        "a configuration that is a list": _entry("config.json", lambda place: b"[]"),
        "a number of 5000 digits": _entry("config.json", lambda place: b'{"a": ' + b"9" * 5000 + b"}"),
        "weights that are pickled": lambda place: _archive(place, {**{name: content for name, content in _entries().items() if name != _WEIGHTS}, "model.weights.npz": pickled(place)}),
        "metadata of brackets": _entry("metadata.json", lambda place: b"[" * 100_000),
        "half of it": lambda place: place.write(_MODEL, b"PK\x03\x04" + bytes(500)),
        "a sparse file of 1 TB": lambda place: place.write_sparse(_MODEL, b"PK\x03\x04", 1 << 40),
    }  # fmt: skip
    for name, build in builders.items():
        yield Case(f"keras/{name}", "break the reader", build, _WORDS)


def _nested_layers(depth: int) -> bytes:
    described = (
        '{"module": "keras.layers", "class_name": "Bidirectional", "registered_name": null, "config": {"layer": '
    )
    return (described * depth + "{}" + "}}" * depth).encode()


def cases() -> Iterator[Case]:
    """Yield the cases of Keras."""
    yield from _classes()
    yield from _hdf5()
    yield from _archives()
