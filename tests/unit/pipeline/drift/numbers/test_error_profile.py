"""Counts of errors that merge exactly, the worst samples, and their pictures."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pytest

from transload.models.dataset import Dataset
from transload.models.signature import Array
from transload.pipeline.drift.numbers.error_profile import WORST, ErrorProfile
from transload.pipeline.drift.numbers.picture import picture_of

SAMPLES = 40
RNG = np.random.default_rng(5)
REFERENCE = RNG.normal(size=(SAMPLES, 3)).astype(np.float32)
CANDIDATE = REFERENCE + (10.0 ** RNG.uniform(-6, -1, (SAMPLES, 3))).astype(np.float32)
CANDIDATE[7] = REFERENCE[7]


def profile_of(candidate: Array, reference: Array, chunk: int = SAMPLES, *, batched: bool = True) -> ErrorProfile:
    profile = ErrorProfile(batched)
    for at in range(0, len(reference), chunk):
        rows = np.arange(at, min(at + chunk, len(reference)))
        profile.add({"y": candidate[rows]}, {"y": reference[rows]}, rows)
    return profile


@pytest.mark.parametrize("chunk", [1, 7, 16])
def test_any_split_of_the_samples_gives_the_same_rows(chunk: int) -> None:
    data = Dataset({"x": REFERENCE}, np.arange(SAMPLES))
    whole, parts = (profile_of(CANDIDATE, REFERENCE, size) for size in (SAMPLES, chunk))
    assert parts.worst_rows("torch", data) == whole.worst_rows("torch", data)
    (row,), (split,) = whole.rows("torch"), parts.rows("torch")
    assert {**split, "rms": None} == {**row, "rms": None}
    assert split["rms"] == pytest.approx(row["rms"], rel=1e-12)


def test_elements_are_counted_by_powers_of_two() -> None:
    reference = np.zeros((6, 1), np.float32)
    candidate = np.array([[0], [1.0], [1.99], [-2.0], [0.3], [np.nan]], np.float32)
    (row,) = profile_of(candidate, reference).rows("torch")
    assert row["bins"] == [[-1, 1], [1, 2], [2, 1]]  # 0.3 | 1, 1.99 | 2
    assert (row["elements"], row["equal"], row["non_finite"], row["rms"]) == (6, 1, 1, 0.0)


def test_the_same_nan_or_infinity_is_no_error_and_another_is() -> None:
    reference = np.array([[np.nan], [np.inf], [np.inf], [1.0]])
    (row,) = profile_of(np.array([[np.nan], [np.inf], [-np.inf], [1.0]]), reference).rows("torch")
    assert (row["equal"], row["non_finite"], row["bins"]) == (3, 1, [])


def test_large_integers_that_float64_does_not_tell_apart_are_not_equal() -> None:
    reference = np.array([[2**60], [5]])
    (row,) = profile_of(np.array([[2**60 + 1], [5]]), reference).rows("torch")
    assert (row["equal"], row["bins"]) == (1, [[1, 1]])


def test_the_worst_samples_are_those_with_the_largest_error() -> None:
    labels = np.arange(SAMPLES) % 10
    rows = profile_of(CANDIDATE, REFERENCE, 7).worst_rows("tflite", Dataset({"x": REFERENCE}, labels))
    errors = np.abs(CANDIDATE.astype(np.float64) - REFERENCE)
    order = np.argsort(-errors.max(axis=1))[:WORST]
    assert [row["sample"] for row in rows] == order.tolist()
    assert [row["error"] for row in rows] == pytest.approx(errors[order].max(axis=1))
    assert [row["label"] for row in rows] == [str(label) for label in labels[order]]
    at = errors[order[0]].argmax()
    assert rows[0]["candidate"] == pytest.approx(CANDIDATE[order[0], at])
    assert rows[0]["reference"] == pytest.approx(REFERENCE[order[0], at])
    assert rows[0]["picture"] is None


def test_a_sample_without_a_number_is_the_worst_and_an_equal_one_is_none() -> None:
    candidate = CANDIDATE.copy()
    candidate[30, 1] = np.nan
    rows = profile_of(candidate, REFERENCE).worst_rows("torch", Dataset({"x": REFERENCE}))
    assert (rows[0]["sample"], rows[0]["error"], rows[0]["candidate"], rows[0]["label"]) == (30, None, None, None)
    assert profile_of(REFERENCE, REFERENCE).worst_rows("torch", Dataset({"x": REFERENCE})) == []


def test_errors_of_two_outputs_compare_by_the_size_of_each() -> None:
    profile = ErrorProfile(batched=True)
    boxes, scores = np.full((2, 1), 500.0), np.full((2, 1), 0.5)
    wrong = {"boxes": np.array([[500.1], [500]]), "scores": np.array([[0.5], [0.55]])}
    profile.add(wrong, {"boxes": boxes, "scores": scores}, np.arange(2))
    rows = profile.worst_rows("torch", Dataset({"x": boxes}))
    assert [(row["sample"], row["output"]) for row in rows] == [(1, "scores"), (0, "boxes")]


def test_an_output_that_does_not_lie_by_sample_is_counted_alone() -> None:
    profile = ErrorProfile(batched=True)
    profile.add({"y": np.ones((3, 2))}, {"y": np.zeros((3, 2))}, np.arange(4))
    assert profile.rows("torch")[0]["bins"] == [[1, 6]]
    assert profile.worst_rows("torch", Dataset({"x": np.zeros((4, 1))})) == []


def pixels(picture: str | None) -> tuple[tuple[int, int, int], Array]:
    """Width, height and colour type of a PNG, and its bytes."""
    assert picture is not None
    data = base64.b64decode(picture)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    assert depth == 8
    length = struct.unpack(">I", data[33:37])[0]
    raw = np.frombuffer(zlib.decompress(data[41 : 41 + length]), np.uint8)
    return (width, height, colour), raw.reshape(height, -1)[:, 1:]


def test_a_grey_image_keeps_its_pixels() -> None:
    image = np.arange(5 * 6, dtype=np.float32).reshape(1, 1, 5, 6) - 10
    head, values = pixels(picture_of([np.zeros((1, 7)), image], 0))
    assert head == (6, 5, 0)
    np.testing.assert_array_equal(values, np.round(np.arange(30).reshape(5, 6) / 29 * 255))


@pytest.mark.parametrize("last", [True, False])
def test_a_large_image_of_colours_is_thinned_out(last: bool) -> None:
    image = np.zeros((2, 200, 100, 3), np.uint8)
    image[1, :, :, 2] = 255
    head, values = pixels(picture_of([image if last else np.moveaxis(image, -1, 1)], 1))
    assert head == (20, 40, 2)
    assert values.reshape(40, 20, 3)[3, 4].tolist() == [0, 0, 255]


@pytest.mark.parametrize("shape", [(2, 16), (2, 8, 8), (2, 5, 8, 8), (2, 3, 2, 2), (2, 1, 1, 16)])
def test_what_is_no_image_has_no_picture(shape: tuple[int, ...]) -> None:
    assert picture_of([np.zeros(shape, np.float32)], 0) is None


def test_an_image_of_one_value_or_with_nan_has_a_picture() -> None:
    image = np.full((1, 1, 8, 8), 3.0)
    image[0, 0, 0, 0] = np.nan
    assert pixels(picture_of([image], 0))[0] == (8, 8, 0)
