"""Our TensorProto codec against TensorFlow's own, on random arrays of every dtype; exits with a traceback if they
differ. A process of its own: the test process never imports TensorFlow."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from transload.models.signature import DTYPES
from transload.serving.wire.tensor_proto import BY_DTYPE, decode, decode_all, encode, parse
from transload.serving.wire.tfserving_messages import stock

SHAPES = [(), (1,), (3,), (0,), (2, 0, 3), (2, 3, 4), (1, 1)]


def sample(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    kind = np.dtype(dtype).kind
    if kind == "f":
        found = rng.standard_normal(shape).astype(dtype)
        return np.where(rng.random(shape) < 0.2, np.array(np.inf, dtype), found).astype(dtype)
    if kind == "b":
        return rng.random(shape) < 0.5
    limits = np.iinfo(dtype)
    return np.asarray(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))


def same(left: np.ndarray, right: np.ndarray, about: object) -> None:
    assert left.dtype == right.dtype, about
    assert left.shape == right.shape, about
    assert left.tobytes() == right.tobytes(), about


def check(array: np.ndarray) -> None:
    about = (array.dtype, array.shape)
    ours = stock().TensorProto()
    encode(array, ours)
    same(tf.make_ndarray(tensor_pb2.TensorProto.FromString(ours.SerializeToString())), array, about)
    theirs = tf.make_tensor_proto(array)
    same(decode(stock().TensorProto.FromString(theirs.SerializeToString()), "x"), array, about)
    listed = tensor_pb2.TensorProto(dtype=theirs.dtype, tensor_shape=theirs.tensor_shape)
    bits = array.view(np.uint16) if array.dtype == np.float16 else array
    getattr(listed, BY_DTYPE[array.dtype.name].field).extend(bits.ravel().tolist())
    if not array.size:
        return  # make_ndarray takes no typed values of nothing
    same(decode(stock().TensorProto.FromString(listed.SerializeToString()), "x"), tf.make_ndarray(listed), about)
    one = tensor_pb2.TensorProto(dtype=theirs.dtype, tensor_shape=theirs.tensor_shape)
    getattr(one, BY_DTYPE[array.dtype.name].field).extend(bits.ravel()[:1].tolist())
    request = stock().PredictRequest()
    request.inputs["x"].MergeFromString(one.SerializeToString())
    filled = decode_all(parse(request.SerializeToString(), "PredictRequest").inputs)["x"]
    same(filled, tf.make_ndarray(one), about)


def main() -> None:
    rng = np.random.default_rng(20)
    checked = 0
    for dtype in DTYPES:
        for shape in SHAPES:
            for _ in range(5):
                check(sample(rng, dtype, shape))
                checked += 1
    print(checked)


if __name__ == "__main__":
    main()
