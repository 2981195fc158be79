"""The table of systems: what each takes, what it refuses and how, and what every bundle has."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.models.formats import Format
from transload.serving.bundles.bundle_records import AnswerLimit, BundleSource, System
from transload.serving.bundles.systems import SYSTEMS, bundle_files, check_taken

PAIRS = [(system, form) for system, row in SYSTEMS.items() for form in row.takes]


def test_the_table_has_every_system() -> None:
    assert list(SYSTEMS) == list(System)


@pytest.mark.parametrize(("system", "form"), PAIRS)
def test_every_bundle_has_golden_samples_and_their_check(
    make_source: Callable[..., BundleSource], system: System, form: Format
) -> None:
    files = bundle_files(make_source(form, name="digits"), system)
    assert {"golden.json", "check.py", "check.sh", "README.md"} < set(files)
    golden = json.loads(str(files["golden.json"]))
    assert len(golden["calls"]) == 2
    assert golden["url"].startswith("http://127.0.0.1:")
    readme = str(files["README.md"])
    assert f"./check.sh {golden['url']}" in readme
    assert "{" not in golden["path"]


def test_wrong_formats_are_refused_with_the_conversion_that_helps() -> None:
    with pytest.raises(BadRequest) as error:
        check_taken("made/torchscript", Format.TORCHSCRIPT, System.TFSERVING)
    assert str(error.value) == (
        "made/torchscript is of the format torchscript, and tfserving takes saved-model\n"
        "  fix: transload convert made/torchscript --to saved-model --out DIR, and bundle DIR/saved-model"
    )


def test_flex_is_refused() -> None:
    with pytest.raises(BadRequest, match="needs TensorFlow's Flex delegate, which no server here has") as error:
        check_taken("made/tflite", Format.TFLITE, System.DOCKER, flex=True)
    assert error.value.fix == "bundle the model as saved-model or onnx or torchscript or pt2 or keras"


@pytest.mark.parametrize("least_db", [float("nan"), float("inf")])
def test_a_tolerance_is_a_number(least_db: float) -> None:
    with pytest.raises(ValueError, match="a tolerance is a number"):
        AnswerLimit(least_db, 0.0)


def test_batches_need_the_batch_first_everywhere(
    make_source: Callable[..., BundleSource], signatures: dict[str, Any]
) -> None:
    assert make_source(Format.ONNX).batch_first
    assert not make_source(Format.ONNX, signatures["scalars"]).batch_first
    assert make_source(Format.ONNX, signatures["bounded"](1, 5)).largest_batch == 5
    assert make_source(Format.ONNX, signatures["bounded"](100, None)).largest_batch == 64
