"""Counts of n-grams in rows of numbered tokens. (Strings are not lowered.)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise

import numpy as np

from .....models.signature import Array
from ...lazy_tensorflow import tf
from ...lowerings import INDICES, lowers
from ...operator_context import OperatorContext
from ...values import TfTensor, Value, computed


@lowers("TfIdfVectorizer", since=9, T=INDICES)
def tf_idf(op: OperatorContext) -> Value:
    """Lower TfIdfVectorizer: how often each n-gram of the pool is in a row.

    0 to `max_skip_count` tokens are left out between its tokens. The count is as it is (TF), at most one (IDF), or as
    it is (TFIDF); the latter two times its weight.
    """
    rows, mode = op.value(0), op.word("mode", "", ("TF", "IDF", "TFIDF"))
    places = np.array(op.ints("ngram_indexes"))
    weights = _weights(op, places)
    tokens = tf.cast(rows.tensor() if rows.rank == 2 else rows.tensor()[None], tf.int64)
    counts = tf.concat([_counts(tokens, grams, steps) for grams, steps in _pool_by_length(op, len(places))], 1)
    scores = _at_places(counts, places)
    if mode == "IDF":
        scores = tf.minimum(scores, 1.0)
    if mode != "TF":
        scores *= weights
    return computed(scores if rows.rank == 2 else scores[0])


def _pool_by_length(op: OperatorContext, total: int) -> Iterator[tuple[Array, Sequence[int]]]:
    """Yield by length of n-gram those of the pool, (count, length), and how far apart their tokens may lie.

    There are no distances for a length that the model does not count. A single token has no distance: it is counted
    once.
    """
    if op.has("pool_strings"):
        op.refuse("its n-grams are strings, and the lowering knows numbers", fix="number the tokens outside the model")
    pool, starts = np.array(op.ints("pool_int64s")), op.ints("ngram_counts")
    wanted = range(op.integer("min_gram_length"), op.integer("max_gram_length") + 1)
    apart = range(1, op.integer("max_skip_count") + 2)
    grams = [pool[at:end].reshape(-1, 1 + n) for n, (at, end) in enumerate(pairwise([*starts, len(pool)]))]
    if sum(map(len, grams)) != total:
        op.refuse("its n-grams are not as many as their places", fix="check the model with onnx.checker")
    for length, pool_of_length in enumerate(grams, 1):
        yield pool_of_length, () if length not in wanted else apart if length > 1 else (1,)


def _counts(tokens: TfTensor, grams: Array, steps: Sequence[int]) -> TfTensor:
    """Count how often each n-gram is there, its tokens a step apart: (rows, n-grams)."""
    count, length = grams.shape
    total = tf.zeros(tf.stack([tf.shape(tokens)[0], count]))
    for step in steps if count else ():
        windows = tf.maximum(tf.shape(tokens)[1] - step * (length - 1), 0)
        shifted = [tokens[:, at * step : at * step + windows, None] for at in range(length)]
        hits = [tf.equal(token, tf.constant(grams[:, at])) for at, token in enumerate(shifted)]
        total += tf.reduce_sum(tf.cast(reduce(tf.logical_and, hits), tf.float32), 1)
    return total


def _at_places(counts: TfTensor, places: Array) -> TfTensor:
    """Return the counts by place (rows, places): the sum of several, 0 of none."""
    shared = int(np.bincount(places).max())
    chosen = np.full((shared, int(places.max()) + 1), len(places), np.int32)  # the column of zeros that is added
    used = np.zeros(chosen.shape[1], np.int64)
    for gram, place in enumerate(places):
        chosen[used[place], place] = gram
        used[place] += 1
    padded = tf.pad(counts, [[0, 0], [0, 1]])
    return tf.add_n([tf.gather(padded, tf.constant(columns), axis=1) for columns in chosen])


def _weights(op: OperatorContext, places: Array) -> Array:
    """Return the weights by place; 1 where the model has none."""
    if not op.has("weights"):
        return np.ones(int(places.max()) + 1, np.float32)
    weights = np.array(op.floats("weights"), np.float32)
    if not np.array_equal(places, np.arange(len(weights))):
        op.refuse(
            "its weights are listed by n-gram, its n-grams lie in another order, and runtimes take them by place",
            fix="list the n-grams in the order of their places",
        )
    return weights
