"""Scores by sample, and data that is split as promised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from transload.models.dataset import Dataset, read_dataset, shuffled
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.job_records import DataFacts
from transload.models.loading.build import call_model
from transload.models.loading.code_refs import RECIPES, zoo_recipe
from transload.models.probes.random_inputs import sample_inputs
from transload.models.signature import Array, check_feeds
from transload.models.sources import CodeRef
from transload.models.training.data import load_splits, prepare_data
from transload.models.training.objectives import accuracy
from transload.models.zoo.digits import shift_images
from transload.models.zoo.template import write_recipe


def test_accuracy_is_one_or_zero_a_sample_and_a_nan_is_wrong() -> None:
    scores = np.array([[1.0, 2.0], [2.0, 1.0], [np.nan, 1.0], [1.0, np.nan]])
    got = accuracy("logits").score({"other": scores[::-1], "logits": scores}, np.array([1, 1, 0, 1]))
    np.testing.assert_array_equal(got, [1.0, 0.0, 0.0, 0.0])
    assert got.dtype == np.float64


def rows(data: Dataset) -> set[bytes]:
    return {np.concatenate([v[at].ravel() for v in data.inputs.values()]).tobytes() for at in range(len(data))}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_keeps_its_promises(name: str) -> None:
    recipe = zoo_recipe(name)
    splits = recipe.data()
    assert rows(splits.train).isdisjoint(rows(splits.test))
    assert rows(splits.validation).isdisjoint(rows(splits.test))
    for spec in recipe.signature.inputs:
        samples = np.concatenate([split.inputs[spec.name] for split in (splits.train, splits.validation, splits.test)])
        assert spec.values is None or (samples.min(), samples.max()) == spec.values
    assert len(splits.test) >= 200
    model = recipe.net().eval()
    for batch in (1, 3):
        feeds = sample_inputs(recipe.signature, batch)
        check_feeds(recipe.signature.inputs, feeds)
        inputs = [torch.from_numpy(feeds[spec.name]) for spec in recipe.signature.inputs]
        outputs = call_model(model, recipe.signature, inputs)
        check_feeds(recipe.signature.outputs, {name: value.detach().numpy() for name, value in outputs.items()})
        assert outputs["logits"].shape[0] == batch
    assert not torch.allclose(outputs["logits"][0], outputs["logits"][1])


@pytest.mark.parametrize("name", RECIPES)
def test_each_split_holds_the_classes_in_like_shares(name: str) -> None:
    splits = zoo_recipe(name).data()
    shares = [np.bincount(np.asarray(data.labels)) / len(data) for data in (splits.train, splits.test)]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.05)


def test_the_larger_of_two_digits_is_labelled_from_the_images() -> None:
    digits, pairs = zoo_recipe("digits-cnn").data().test, zoo_recipe("digits-pair").data().test
    labels = {image.tobytes(): label for image, label in zip(digits.inputs["image"], digits.labels, strict=True)}  # type: ignore[arg-type]
    left, right = ([labels[i.tobytes()] for i in pairs.inputs[side]] for side in ("left", "right"))
    np.testing.assert_array_equal(np.sign(np.subtract(right, left)) + 1, pairs.labels)


def shifted(image: Array, down: int, across: int) -> Array:
    moved = np.zeros_like(image)
    for row in range(8):
        for column in range(8):
            if 0 <= row + down < 8 and 0 <= column + across < 8:
                moved[row, column] = image[row + down, column + across]
    return moved


def test_an_image_is_moved_by_at_most_one_pixel_and_nothing_wraps_around() -> None:
    images = np.random.default_rng(1).random((60, 1, 8, 8), dtype=np.float32)
    moved = shift_images(torch.from_numpy(images), torch.Generator().manual_seed(0)).numpy()
    seen = set()
    for image, result in zip(images[:, 0], moved[:, 0], strict=True):
        ways = [(d, a) for d in (-1, 0, 1) for a in (-1, 0, 1) if np.array_equal(shifted(image, d, a), result)]
        assert len(ways) == 1
        seen.add(ways[0])
    assert len(seen) == 9


def test_the_data_step_writes_the_test_split_and_calibration_samples(tmp_path: Path) -> None:
    facts = prepare_data(Job({}, tmp_path, {"ref": "zoo:digits-cnn"}))
    assert facts == {"test": 540, "calibration": 256}
    splits = zoo_recipe("digits-cnn").data()
    test, calibration = read_dataset(tmp_path / "test.npz"), read_dataset(tmp_path / "calibration.npz")
    np.testing.assert_array_equal(test.inputs["image"], splits.test.inputs["image"])
    np.testing.assert_array_equal(test.labels, splits.test.labels)
    assert rows(calibration) <= rows(splits.train)
    assert len(set(np.asarray(calibration.labels).tolist())) == 10
    other = tmp_path / "again"
    other.mkdir()
    prepare_data(Job({}, other, {"ref": "zoo:digits-cnn"}))
    assert (other / "test.npz").read_bytes() == (tmp_path / "test.npz").read_bytes()


def test_shuffling_keeps_inputs_and_labels_together() -> None:
    data = Dataset({"x": np.arange(50), "y": np.arange(50) * 2}, np.arange(50) * 3)
    mixed = shuffled(data, 1)
    assert not np.array_equal(mixed.inputs["x"], data.inputs["x"])
    np.testing.assert_array_equal(mixed.inputs["x"] * 2, mixed.inputs["y"])
    np.testing.assert_array_equal(mixed.inputs["x"] * 3, mixed.labels)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            "features = scaled.astype(np.float64)",
            r"is of float64, and the input features=float32\[batch,13\] takes float32",
        ),
        ("features = scaled.astype(np.float32)[:, :12]", r"got the shape \[80,12\]"),
        ("features = scaled.astype(np.float32)[:5]", "the data of wine raised IndexError at .*wine.py:"),
    ],
)
def test_data_that_do_not_fit_the_signature_are_refused(change: str, words: str, tmp_path: Path) -> None:
    from transload.models.loading.code_refs import load_recipe
    from transload.models.zoo.template import write_recipe

    path = write_recipe("wine", tmp_path)
    path.write_text(path.read_text().replace("features = scaled.astype(np.float32)", change))
    ref = CodeRef("wine.py", str(tmp_path))
    with pytest.raises(BadRequest, match=words):
        load_splits(load_recipe(ref), ref)


def faults_of(changes: tuple[tuple[str, str], ...], folder: Path) -> list[tuple[str, bool, str]]:
    path = write_recipe("wine", folder)
    for before, after in changes:
        assert before in path.read_text()
        path.write_text(path.read_text().replace(before, after))
    (folder / "out").mkdir()
    facts = DataFacts.from_json(prepare_data(Job({}, folder / "out", {"ref": str(path)})))
    return [(fault.fault, fault.accepted, fault.text) for fault in facts.findings]


CAST = "    features = scaled.astype(np.float32)\n"
HOLE = (CAST, f"{CAST}    features[train[3], 2] = np.nan\n")
FORWARD = "    def forward(self, features):\n"
LOSS = 'return nn.functional.cross_entropy(outputs["logits"], labels)'
SPLIT_FAULTS: dict[str, tuple[tuple[tuple[str, str], ...], list[tuple[str, bool, str]]]] = {
    "as it is": ((), []),
    "NaN": ((HOLE,), [("sample-not-finite", False, "the train split: features[:, 2] holds NaN in 1 of 80 samples, "
                       "first in sample 4 (index 3)")]),
    "NaN that the net fills": ((HOLE, (FORWARD, f"{FORWARD}        features = torch.nan_to_num(features)\n")), [
        ("sample-not-finite", True, "the train split: features[:, 2] holds NaN in 1 of 80 samples, "
         "first in sample 4 (index 3)")]),
    "a label outside": (((CAST, f"{CAST}    labels[test[5]] = 3\n"),), [
        ("label-outside", False, "the test split: the labels hold 3, which is none of 3 classes that count from 0, in "
         "1 of 70 samples, first in sample 6 (index 5)")]),
    "a label that the loss leaves out": (
        ((CAST, f"{CAST}    labels[train[5]] = 3\n"), (LOSS, LOSS.replace("labels)", "labels, ignore_index=3)")),
         ("labels, ignore_index=3)", "labels.clamp(max=2) * (labels < 3))")),
        [("label-outside", True, "the train split: the labels hold 3, which is none of 3 classes that count from 0, in "
          "1 of 80 samples, first in sample 6 (index 5)")]),
    "copies": (((CAST, f"{CAST}    train = np.concatenate([train, test[:7]])\n"),), [
        ("in-train-and-test", False, "the test split: 7 of 70 samples stand in the train split, too (10.0%), first "
         "sample 1 (index 0)")]),
    "the label among the features": (((CAST, f"{CAST}    features[:, 4] = labels\n"),), [
        ("label-as-feature", False, "the train split: the label of every sample can be read off features[:, 4]: is "
         "that the label itself?")]),
}  # fmt: skip


@pytest.mark.parametrize("case", SPLIT_FAULTS)
def test_the_faults_of_splits_are_facts_of_the_data_step(case: str, tmp_path: Path) -> None:
    changes, expected = SPLIT_FAULTS[case]
    assert faults_of(changes, tmp_path) == expected


@pytest.mark.parametrize("name", RECIPES)
def test_our_own_recipes_have_no_faults(name: str, tmp_path: Path) -> None:
    assert "findings" not in prepare_data(Job({}, tmp_path, {"ref": f"zoo:{name}"}))
