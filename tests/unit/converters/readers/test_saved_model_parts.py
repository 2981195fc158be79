"""What loaders of a SavedModel see differently, and what beside `serving_default` is not asked."""

import json
from functools import partial

import pytest

from transload.converters.readers.saved_model.saved_model_folder import read_saved_model
from transload.converters.readers.saved_model.saved_model_parts import (
    functions_not_asked,
    save_again,
    unrestored_variables,
)
from transload.converters.readers.saved_model.saved_model_reader import import_saved_model
from transload.models.artifact import read_artifact
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.signature import Signature, parse_input
from transload.models.store import digest_of


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    import keras
    import tensorflow as tf

    root = tmp_path_factory.mktemp("saved")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    tf.saved_model.save(model, str(root / "saved"))
    model.export(root / "exported", verbose=False)

    class Several(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 4], name="x")])
        def __call__(self, x):
            return {"y": 2 * x}

        @tf.function(input_signature=[tf.TensorSpec([None, 4], name="x")])
        def embed(self, x):
            return {"e": tf.nn.relu(x)}

    several = Several()
    tf.saved_model.save(several, str(root / "served"), signatures=several.__call__)
    tf.saved_model.save(
        several, str(root / "other"), signatures={"serving_default": several.embed, "embed": several.embed}
    )
    tf.saved_model.save(
        several, str(root / "both"), signatures={"serving_default": several.__call__, "embed": several.embed}
    )
    return root


def test_variables_that_only_the_later_loader_restores_are_named_and_restored(folders, tmp_path):
    unrestored = unrestored_variables(read_saved_model(folders / "saved"))
    assert [name.rpartition("/")[2] for name in unrestored] == ["bias", "kernel"]
    assert unrestored_variables(read_saved_model(folders / "exported")) == []
    save_again(folders / "saved", tmp_path / "again")
    assert unrestored_variables(read_saved_model(tmp_path / "again")) == []


@pytest.mark.parametrize(
    ("name", "others"), [("served", []), ("both", ["embed"]), ("other", ["__call__"]), ("exported", [])]
)
def test_functions_that_serving_default_does_not_call_are_named(folders, name, others):
    assert functions_not_asked(read_saved_model(folders / name)) == others


def test_ragged_and_sparse_tensors_are_refused_by_kind(tmp_path):
    import tensorflow as tf

    ragged = tf.RaggedTensorSpec([None, None], tf.float32, ragged_rank=1)
    kinds = {
        "takes a ragged tensor": (ragged, lambda x: tf.reduce_sum(x, axis=1)),
        "takes a sparse tensor": (tf.SparseTensorSpec([None, 4]), tf.sparse.to_dense),
        "y is a ragged or sparse": (tf.TensorSpec([None, 4]), lambda x: tf.RaggedTensor.from_tensor(x, padding=0)),
    }
    for at, (words, (spec, function)) in enumerate(kinds.items()):
        module, path = tf.Module(), tmp_path / f"model{at}"
        module.serve = tf.function(partial(lambda function, x: {"y": function(x)}, function), input_signature=[spec])
        tf.saved_model.save(module, str(path), signatures=module.serve)
        (tmp_path / f"taken{at}").mkdir()
        with pytest.raises(BadRequest, match=words):
            import_saved_model(Job({}, tmp_path / f"taken{at}", {"path": str(path), "sha256": digest_of(path)}))


TEXT = json.dumps({"signature": Signature(
    tuple(parse_input(text) for text in ("ids=int64[batch,time]", "mask=int64[batch,time]")),
    (parse_input("y=float32[batch,time]"),),
).to_json()})  # fmt: skip


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        (TEXT, True),
        (None, False),
        (TEXT[:-9], False),
        ("[]", False),
        (TEXT.replace("ids", "words"), False),
        (TEXT.replace("int64", "int32"), False),
        (TEXT.replace('"time"', '7, "time"'), False),
    ],
)
def test_axes_have_the_names_that_the_conversion_wrote_if_they_fit(text, is_named, tmp_path):
    """As in a bundle for TF Serving, whose record is not beside it; the model itself answers to two batches."""
    import tensorflow as tf

    module, path = tf.Module(), tmp_path / "model"
    specs = [tf.TensorSpec([None, None], tf.int64, name) for name in ("ids", "mask")]
    module.serve = tf.function(lambda ids, mask: {"y": tf.cast(ids, tf.float32) * 2}, input_signature=specs)
    tf.saved_model.save(module, str(path), signatures=module.serve)
    if text is not None:
        (path / "assets.extra").mkdir()
        (path / "assets.extra/transload.json").write_text(text)
    (tmp_path / "taken").mkdir()
    job = Job({}, tmp_path / "taken", {"path": str(path), "sha256": digest_of(path)})
    if not is_named:
        with pytest.raises(BadRequest, match="gives the first axes of its inputs no names"):
            import_saved_model(job)
        return
    import_saved_model(job)
    assert [str(spec) for spec in read_artifact(tmp_path / "taken").signature.inputs] == [
        "ids=int64[batch,time]",
        "mask=int64[batch,time]",
    ]


@pytest.mark.parametrize(("function", "axes"), [("same", ("batch", 4)), ("twice", ("y_0", 4))])
def test_the_axes_of_outputs_are_those_that_two_calls_show(function, axes, tmp_path):
    import tensorflow as tf

    functions = {"same": lambda x: 2 * x, "twice": lambda x: tf.concat([x, x], 0)}
    module, path = tf.Module(), tmp_path / "model"
    module.serve = tf.function(lambda x: {"y": functions[function](x)}, input_signature=[tf.TensorSpec([None, 4])])
    tf.saved_model.save(module, str(path), signatures=module.serve)
    (tmp_path / "taken").mkdir()
    import_saved_model(Job({}, tmp_path / "taken", {"path": str(path), "sha256": digest_of(path)}))
    assert read_artifact(tmp_path / "taken").signature.outputs[0].shape == axes
