"""`--metric` and `--allowed-loss` beside models that are no recipes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from sklearn.metrics import mean_absolute_error, roc_auc_score

from transload.models.signature import Array

from .command_line import run

pytestmark = pytest.mark.usefixtures("loaded_once")
OWN = """
def boom(outputs, labels):
    return outputs["nothing"]
"""


def write_linear(path: Path, weights: Array) -> None:
    """A file with y = x W, opset 17."""
    sizes = [helper.make_tensor_value_info(*spec) for spec in (
        ("x", TensorProto.FLOAT, ["batch", len(weights)]), ("y", TensorProto.FLOAT, ["batch", weights.shape[1]]),
    )]  # fmt: skip
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "linear", sizes[:1], sizes[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("metrics")
    rng = np.random.default_rng(0)
    weights, x = rng.normal(size=(8, 2)).astype(np.float32), rng.normal(size=(400, 8)).astype(np.float32)
    write_linear(folder / "net.onnx", weights)
    write_linear(folder / "near.onnx", weights + rng.normal(scale=0.003, size=weights.shape).astype(np.float32))
    np.savez(folder / "classes.npz", x=x, labels=(x @ weights + rng.normal(size=(400, 2))).argmax(axis=1))
    np.savez(folder / "values.npz", x=x, labels=x @ weights + rng.normal(scale=0.1, size=(400, 2)))
    np.savez(folder / "odd.npz", x=x, labels=np.zeros((400, 5)))
    (folder / "own.py").write_text(OWN)
    return folder


def validate(here: Path, data: str, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = ("validate", "near.onnx", "--against", "net.onnx", "--data", data, "--runtime", "onnxruntime", *words)
    return run(here, *command, status=status)


def answers(here: Path, name: str, data: str) -> Array:
    weights = numpy_helper.to_array(onnx.load(here / name).graph.initializer[0])
    return np.asarray(np.load(here / data)["x"] @ weights)


def first_row(here: Path, data: str, *words: str, status: int = 0) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(validate(here, data, *words, "--json", status=status).stdout)["drift"][0]
    return row


def test_an_allowed_loss_lets_the_metric_judge_a_file_of_unknown_precision(here: Path) -> None:
    labels = np.load(here / "classes.npz")["labels"]
    row = first_row(here, "classes.npz", "--metric", "auroc", "--allowed-loss", "0.01")
    assert (row["batch"], row["samples"]) == (400, 400), "samples of 10 numbers lie in one call"
    sides = [answers(here, name, "classes.npz") for name in ("net.onnx", "near.onnx")]
    expected = [roc_auc_score(labels, side[:, 1] - side[:, 0]) for side in sides]
    assert [row["metric"]["reference"], row["metric"]["candidate"]] == pytest.approx(expected, abs=1e-6)
    assert row["tolerance"] == {"sqnr_db": None, "metric_loss": 0.01}
    assert (row["verdict"], row["metric"]["unit"], row["metric"]["higher_is_better"]) == ("pass", "", True)
    tight = first_row(here, "classes.npz", "--metric", "accuracy", "--allowed-loss", "0.0001", status=3)
    assert (tight["verdict"], tight["metric"]["unit"]) == ("inconclusive", "share")
    assert tight["metric"]["samples_needed"] > 400


def test_without_an_allowed_loss_the_numbers_judge_and_the_plain_metric_is_named(here: Path) -> None:
    done = validate(here, "values.npz", "--quiet", status=1)
    labels = np.load(here / "values.npz")["labels"]
    error = mean_absolute_error(labels, answers(here, "near.onnx", "values.npz"))
    assert f"mae {error:.4g} (" in done.stdout
    assert " pp" not in done.stdout
    note = "the metric is mae of y, by its shape; it is reported and judges nothing without --allowed-loss"
    assert note in done.stdout.splitlines()


def test_labels_that_fit_nothing_are_named(here: Path) -> None:
    done = validate(here, "odd.npz", "--quiet", status=1)
    assert "the labels of the shape [samples, 5] are not used: name one with --metric" in done.stdout.splitlines()


MESSAGES = [
    (
        ("odd.npz", "--metric", "mae"),
        "labels of the shape [samples, 5] go with no output for mae: y=float32[batch,2]\n"
        "  fix: give the labels that the metric compares with an output, or write one: --metric FILE.py:FUNCTION\n",
    ),
    (
        ("classes.npz", "--metric", "top5"),
        "the 5 largest of 2 classes always hold the label\n  fix: use --metric accuracy\n",
    ),
    (
        ("classes.npz", "--metric", "own.py:boom"),
        "the metric boom raised KeyError: 'nothing'\n"
        "  fix: it is called as def NAME(outputs: dict of arrays, labels: array) -> one number, or one score a "
        "sample; the model's outputs are y\n",
    ),
    (
        ("classes.npz", "--metric", "f2"),
        "the request: validate.metric: unknown metric 'f2'\n"
        "  fix: use one of accuracy, top5, f1, auroc, ece, mae, rmse, r2, cosine, recall@k, miou, map, perplexity "
        "(with a number for k), or FILE.py:FUNCTION\n",
    ),
]


@pytest.mark.parametrize(("words", "text"), MESSAGES)
def test_what_cannot_be_measured_is_one_sentence(here: Path, words: tuple[str, ...], text: str) -> None:
    assert validate(here, *words, "--quiet", status=2).stderr == f"error: {text}"
