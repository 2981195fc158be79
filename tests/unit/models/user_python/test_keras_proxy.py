"""A model of Keras in another interpreter, asked from here. Our own Python and Keras stand for the other's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transload.converters.user_python_captures import saved_model_from_user_python
from transload.models.artifact import read_artifact
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.loading.infer_signature import infer_signature
from transload.models.sources import CodeRef, Source, write_source
from transload.models.user_python.inside.conversation import TENSORFLOW
from transload.models.user_python.interpreter import UserPython
from transload.models.user_python.module_proxy import ProxyState, check_proxy, make_proxy, make_there
from transload.serving.runtimes.user_python_session import open_user_python_session

CODE = """
import keras
import tensorflow as tf

def make(width=4):
    rows, gain = keras.Input((3,), name="rows"), keras.Input((1,), name="the gain")
    hidden = keras.layers.Dense(width, name="hidden")(rows) * gain
    return keras.Model([rows, gain], {"score": keras.layers.Dense(1)(hidden), "hidden": hidden})

def saved():
    model = keras.Sequential([keras.Input((3,), name="rows"), keras.layers.Dense(2, name="out")])
    model.save("old.keras")
    return model

def unbuilt():
    return keras.Sequential([keras.layers.Dense(2)])

def number():
    return 3

class Mine(tf.Module):
    def __init__(self):
        self.table = tf.Variable(tf.reshape(tf.range(14.0), (7, 2)))
    @tf.function
    def __call__(self, ids):
        return tf.gather(self.table, ids)
"""


def python() -> UserPython:
    folders = (sys.prefix, sys.base_prefix)
    return UserPython(
        path=sys.executable, version="3.11.0", torch="", tensorflow="2", framework=TENSORFLOW, folders=folders
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "net.py").write_text(CODE)
    return folder


def ref(project: Path, text: str = "net.py:make", **settings: Any) -> CodeRef:
    return CodeRef(text, str(project), settings, python=python())


@pytest.fixture(scope="module")
def net(project: Path) -> Iterator[Any]:
    module = make_proxy(ref(project, width=5))
    yield module
    module.process.close()


def test_it_is_called_by_the_names_and_shapes_that_it_declares(net: Any) -> None:
    assert [str(spec) for spec in net.description.inputs] == ["rows=float32[batch,3]", "the_gain=float32[batch,1]"]
    signature, _, _ = infer_signature(net, net.description.inputs)
    outputs = {spec.name: spec.shape for spec in signature.outputs}
    assert outputs == {"score": ("batch", 1), "hidden": ("batch", 5)}


def test_its_weights_come_and_go_and_what_calls_change_is_seen(net: Any) -> None:
    state = net.state_dict()
    kernel = next(name for name in state if name.startswith("0."))
    state[kernel] = torch.ones(3, 5)
    net.load_state_dict(state)
    answer = net(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[2.0]]))
    assert torch.equal(answer["hidden"], torch.full((1, 5), 12.0))
    assert ProxyState().changed(net) == []


@pytest.mark.slow
def test_what_it_saves_answers_alike_here(net: Any, project: Path, tmp_path: Path) -> None:
    import tensorflow as tf

    signature, call, _ = infer_signature(net, net.description.inputs)
    source = Source(ref(project, width=5), signature, "code", None if call is None else call.to_json())
    for name in ("source", "out"):
        (tmp_path / name).mkdir()
    write_source(tmp_path / "source", source)
    saved_model_from_user_python(Job({"source": tmp_path / "source"}, tmp_path / "out"))
    artifact = read_artifact(tmp_path / "out")
    serve = tf.saved_model.load(str(artifact.path)).signatures["serving_default"]
    rows = {"rows": np.ones((2, 3), "float32"), "the_gain": np.full((2, 1), 3, "float32")}
    session = open_user_python_session("torch", tmp_path / "source", "cpu", 1, onednn=True)
    answers = session.run(rows)
    session.close()
    for name, value in serve(**rows).items():
        np.testing.assert_allclose(value.numpy(), answers[name], rtol=1e-5)
    assert sorted(answers) == ["hidden", "score"]


def test_the_model_in_a_file_is_loaded_there_and_code_that_makes_none_is_refused(net: Any, project: Path) -> None:
    path = project / "old.keras"
    make_there(net.process, ref(project, "net.py:saved"))
    loaded = make_there(net.process, ref(project, "old.keras:model"))
    assert list(loaded(torch.zeros(2, 3))) == ["out"]
    module = make_there(net.process, ref(project, "net.py:Mine"))
    assert torch.equal(module(torch.tensor([1, 0]))["output"], torch.tensor([[2.0, 3.0], [0.0, 1.0]]))
    path.write_bytes(b"nothing")
    for text, message in (
        ("net.py:number", "gives a int, not a model of Keras or TensorFlow"),
        ("old.keras:model", "there cannot load .*old.keras"),
    ):
        with pytest.raises(BadRequest, match=message):
            make_there(net.process, ref(project, text))
    with pytest.raises(BadRequest, match="takes its shape at the model's first call"):
        check_proxy(make_there(net.process, ref(project, "net.py:unbuilt")))
