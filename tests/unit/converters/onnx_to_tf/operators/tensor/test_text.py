"""Counts of n-grams: TfIdfVectorizer against ONNX Runtime."""

import numpy as np
import pytest

from transload.models.errors import Refused

POOL = {
    "ngram_counts": [0, 4],
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 3, 3],
    "ngram_indexes": [0, 1, 2, 3, 6, 5, 4, 8],
}
TOKENS = ("N", 12), lambda rng, shape: rng.integers(1, 9, shape).astype(np.int64)


def counting(case, tokens=TOKENS, **attributes):
    asked = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, **POOL, **attributes}
    return case("TfIdfVectorizer", {"x": tokens}, attributes=asked)


@pytest.mark.parametrize("lengths", [(1, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("skips", [0, 1, 5])
def test_ngrams_of_a_length_are_counted_with_tokens_left_out(bench, case, lengths, skips):
    shortest, longest = lengths
    bench.agrees(counting(case, min_gram_length=shortest, max_gram_length=longest, max_skip_count=skips))


@pytest.mark.parametrize("mode", ["IDF", "TFIDF"])
def test_weights_scale_the_counts(bench, case, mode):
    weights = {"ngram_indexes": list(range(8)), "weights": [0.5, 2.0, 3.0, 0.25, 1.5, 0.0, -1.0, 4.0]}
    bench.agrees(counting(case, mode=mode, max_skip_count=2, **weights))


@pytest.mark.parametrize("mode", ["IDF", "TFIDF"])
def test_without_weights_each_is_one(bench, case, mode):
    bench.agrees(counting(case, mode=mode))


def test_ngrams_of_one_place_are_added_up(bench, case):
    bench.agrees(counting(case, ngram_indexes=[0, 1, 0, 3, 1, 5, 4, 1]))


@pytest.mark.parametrize("length", ["N", 12])
def test_a_single_row_of_any_length(bench, case, length):
    bench.agrees_in_tflite(counting(case, ((length,), TOKENS[1]), max_skip_count=3))


def test_int32_in_tflite(bench, case):
    tokens = ("N", 12), lambda rng, shape: rng.integers(1, 9, shape).astype(np.int32)
    bench.agrees_in_tflite(counting(case, tokens))


def test_weights_whose_order_runtimes_disagree_on_are_refused(bench, case):
    with pytest.raises(Refused, match="its weights are listed by n-gram"):
        bench.lowered(counting(case, mode="TFIDF", weights=[1.0] * 8))
