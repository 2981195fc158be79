"""Complex numbers of TensorFlow's come through to ONNX as pairs, or are refused by name."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.converters.readers.saved_model.saved_model_reader import import_saved_model
from transload.converters.readers.tflite.tflite_reader import import_tflite
from transload.converters.to_onnx.onnx_from_tensorflow import onnx_from_saved_model, onnx_from_tflite
from transload.models.errors import Refused
from transload.models.job import Job
from transload.models.signature import Array
from transload.models.store import digest_of
from transload.serving.runtimes.onnxruntime_session import open_session

slow = pytest.mark.slow
Compute = Callable[[Any, Any], Any]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has one: steps leave files in it."""
    monkeypatch.chdir(tmp_path)


def numbers(tf: Any, x: Any) -> Any:
    """Complex numbers, none of them small."""
    return tf.complex(x + 3.0, x[..., ::-1] * 0.5 - 1)


def there_and_back(tf: Any, x: Any) -> Any:
    """Of frames that overlap."""
    return tf.signal.inverse_stft(tf.signal.stft(tf.reshape(x, [tf.shape(x)[0], -1]), 6, 3, 8), 6, 3, 8)


TRANSFORMS: dict[str, Compute] = {
    "rfft": lambda tf, x: tf.signal.rfft(x),
    "rfft_cut": lambda tf, x: tf.signal.rfft(x, [3]),
    "irfft": lambda tf, x: tf.signal.irfft(numbers(tf, x)),
    "irfft_odd": lambda tf, x: tf.signal.irfft(numbers(tf, x), [5]),
    "ifft": lambda tf, x: tf.signal.ifft(numbers(tf, x)),
    "rfft2d": lambda tf, x: tf.signal.rfft2d(x, [5, 6]),
    "irfft2d": lambda tf, x: tf.signal.irfft2d(numbers(tf, x), [3, 8]),
    "fft3d": lambda tf, x: tf.signal.fft3d(numbers(tf, x)),
    "wide": lambda tf, x: tf.signal.rfft(tf.cast(x, tf.float64)),
}
MOVES: dict[str, Compute] = {
    "slices": lambda tf, x: numbers(tf, x)[..., 1:4] * numbers(tf, x)[:, :1, 1:4],
    "one": lambda tf, x: numbers(tf, x)[0, ..., tf.newaxis, -2],
    "shape": lambda tf, x: tf.reshape(numbers(tf, x), tf.stack([-1, tf.shape(numbers(tf, x))[1]])),
    "transpose": lambda tf, x: tf.transpose(numbers(tf, x), [2, 0, 1]),
    "concat": lambda tf, x: tf.concat([numbers(tf, x), numbers(tf, x)[:, :1]], -2),
    "stack": lambda tf, x: tf.stack([numbers(tf, x), -numbers(tf, x)], -1),
    "split": lambda tf, x: tf.split(numbers(tf, x)[..., :6], 3, -1)[1],
    "axes": lambda tf, x: tf.squeeze(tf.expand_dims(numbers(tf, x), -2)[:, :1], [-3]),
    "gather": lambda tf, x: tf.gather(numbers(tf, x), [2, 0], axis=-1),
    "tile": lambda tf, x: tf.tile(numbers(tf, x), [1, 2, 3]),
    "pad": lambda tf, x: tf.pad(numbers(tf, x), [[0, 0], [1, 0], [2, 1]]),
    "part": lambda tf, x: tf.slice(numbers(tf, x), [0, 1, 2], [-1, 2, 3]),
    "reverse": lambda tf, x: tf.reverse(numbers(tf, x), [-1]),
    "broadcast": lambda tf, x: tf.broadcast_to(numbers(tf, x)[:, :1], tf.shape(x)),
}
FRAMES: dict[str, Compute] = {"y": there_and_back}
ARITHMETIC: dict[str, Compute] = {
    "sum": lambda tf, x: (
        tf.reduce_sum(numbers(tf, x), -1) - tf.reduce_mean(numbers(tf, x), [0, -1], keepdims=True)[..., 0]
    ),
    "product": lambda tf, x: (
        numbers(tf, x) * tf.constant(np.arange(7) + 1j, tf.complex64) + tf.constant(1j, tf.complex64)
    ),
    "quotient": lambda tf, x: numbers(tf, x) / tf.cast(x[:, :1] + 9, tf.complex64),
    "square": lambda tf, x: tf.square(tf.math.conj(numbers(tf, x))),
    "exp": lambda tf, x: tf.exp(numbers(tf, x)),
    "length": lambda tf, x: tf.abs(numbers(tf, x)) + tf.math.angle(-numbers(tf, x)),
    "choice": lambda tf, x: tf.where(x > 0, numbers(tf, x), tf.zeros_like(numbers(tf, x))),
    "real": lambda tf, x: tf.cast(numbers(tf, x), tf.float32) * tf.math.imag(numbers(tf, x)),
    "one_for_all": lambda tf, x: tf.raw_ops.Complex(real=x, imag=tf.constant(0.5)),
}


def parts(tf: Any, computes: dict[str, Compute], x: Any) -> dict[str, Any]:
    found = {name: compute(tf, x) for name, compute in computes.items()}
    complex_ones = {name: value for name, value in found.items() if value.dtype.is_complex}
    return {
        **{f"{name}_real": tf.math.real(value) for name, value in complex_ones.items()},
        **{f"{name}_imaginary": tf.math.imag(value) for name, value in complex_ones.items()},
        **{name: value for name, value in found.items() if name not in complex_ones},
    }


def saved(compute: Callable[[Any], Any], axes: Sequence[int | None], folder: Path) -> Any:
    import tensorflow as tf

    module = tf.Module()
    module.serve = tf.function(compute, input_signature=[tf.TensorSpec(axes, name="x")])
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.serve})
    return module.serve


def to_onnx(path: Path, given: Any, entry: Any) -> Path:
    """The folder of the ONNX model of a file or a SavedModel."""
    (path.parent / "given").mkdir()
    given(Job({}, path.parent / "given", {"path": str(path), "sha256": digest_of(path), "inputs": []}))
    (path.parent / "onnx").mkdir()
    entry(Job({"source": path.parent / "given"}, path.parent / "onnx"))
    return path.parent / "onnx"


SIZES, NONE = [None, 4, 7], [None, None, None]
CASES = {
    "transforms, sizes known": (TRANSFORMS, SIZES),
    "transforms": (TRANSFORMS, NONE),
    "moves": (MOVES, SIZES),
    "arithmetic": (ARITHMETIC, SIZES),
    "moves, sizes unknown": (MOVES, NONE),
    "arithmetic, sizes unknown": (ARITHMETIC, NONE),
    "frames": (FRAMES, NONE),
}


@pytest.mark.parametrize(
    ("computes", "axes"),
    [pytest.param(*CASES[name], id=name, marks=slow if at > 3 else ()) for at, name in enumerate(CASES)],
)
def test_complex_numbers_come_through(computes: dict[str, Compute], axes: list[int | None], tmp_path: Path) -> None:
    import tensorflow as tf

    serve = saved(lambda x: parts(tf, computes, x), axes, tmp_path / "sm")
    session = open_session(to_onnx(tmp_path / "sm", import_saved_model, onnx_from_saved_model), "cpu", 1)
    shapes = [(3, 4, 7), (1, 4, 7)] if axes[1] else [(3, 4, 7), (1, 5, 7)]
    for shape in shapes:
        x = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
        same(session.run({"x": x}), {name: value.numpy() for name, value in serve(tf.constant(x)).items()})


def same(got: Mapping[str, Array], want: Mapping[str, Array]) -> None:
    for name, value in want.items():
        assert (got[name].shape, got[name].dtype) == (value.shape, value.dtype), name
        scale = float(np.abs(value).max())
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-5 * scale, err_msg=name)


def test_a_long_transform_of_known_length_is_exact(tmp_path: Path) -> None:
    """By ONNX Runtime's DFT it would agree to 80 dB."""
    import tensorflow as tf

    serve = saved(lambda x: {"y": tf.abs(tf.signal.rfft(x))}, [None, 400], tmp_path / "sm")
    session = open_session(to_onnx(tmp_path / "sm", import_saved_model, onnx_from_saved_model), "cpu", 1)
    x = np.random.default_rng(0).standard_normal((2, 400)).astype(np.float32)
    want = serve(tf.constant(x))["y"].numpy()
    assert np.linalg.norm(session.run({"x": x})["y"] - want) < 1e-6 * np.linalg.norm(want)


def test_transforms_of_tflite_come_through(tmp_path: Path) -> None:
    import tensorflow as tf

    def compute(x: Any) -> dict[str, Any]:
        over = tf.signal.rfft2d(tf.reshape(x, [-1, 4, 8]), [4, 8])
        along = tf.signal.rfft(x, [16])
        return {
            "both": tf.abs(over),
            "real": tf.math.real(along),
            "imaginary": tf.math.imag(along),
            "abs": tf.abs(along),
        }

    serve = saved(compute, [2, 32], tmp_path / "sm")
    flat = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "sm")).convert()
    (tmp_path / "m.tflite").write_bytes(flat)
    session = open_session(to_onnx(tmp_path / "m.tflite", import_tflite, onnx_from_tflite), "cpu", 1)
    x = np.random.default_rng(0).standard_normal((2, 32)).astype(np.float32)
    (name,) = [spec.name for spec in session.signature.inputs]
    same(session.run({name: x}), {key: value.numpy() for key, value in serve(tf.constant(x)).items()})


REFUSED: dict[str, Compute] = {
    "Sqrt": lambda tf, x: tf.math.real(tf.sqrt(numbers(tf, x))),
    "DivNoNan": lambda tf, x: tf.abs(tf.math.divide_no_nan(numbers(tf, x), numbers(tf, x))),
    "StatelessWhile": lambda tf, x: tf.abs(
        tf.while_loop(lambda i, _: i < tf.shape(x)[0], lambda i, y: (i + 1, y * y), (0, numbers(tf, x)))[1]
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_else_takes_complex_numbers_is_refused_by_name(name: str, tmp_path: Path) -> None:
    import tensorflow as tf

    saved(lambda x: {"y": REFUSED[name](tf, x)}, [None, 5], tmp_path / "sm")
    with pytest.raises(Refused, match=rf"no ONNX is known for (Placeholder|{name}) .* of complex numbers"):
        to_onnx(tmp_path / "sm", import_saved_model, onnx_from_saved_model)
