"""`transload new NAME` writes a recipe that is one (tests/integration/test_training.py trains the first of them)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from transload.models.errors import BadRequest
from transload.models.loading.code_refs import load_recipe
from transload.models.sources import CodeRef
from transload.models.zoo.template import Task, write_recipe

TASKS = pytest.mark.parametrize("task", Task)
METRICS = {
    Task.CLASSIFICATION: "accuracy",
    Task.REGRESSION: "mae",
    Task.SEGMENTATION: "iou",
    Task.TEXT: "accuracy",
    Task.TABULAR: "accuracy",
}


def test_without_a_task_it_classifies(tmp_path: Path) -> None:
    path = write_recipe("my-wine", tmp_path)
    assert path == tmp_path / "my_wine.py"
    assert load_recipe(CodeRef(str(path))).name == "my-wine"
    text = path.read_text()
    path.unlink()
    assert write_recipe("my-wine", tmp_path, Task.CLASSIFICATION).read_text() == text


@TASKS
def test_the_file_is_a_recipe_of_that_name_for_its_task(task: Task, tmp_path: Path) -> None:
    path = write_recipe("my-model", tmp_path, task)
    text = path.read_text()
    compile(text, str(path), "exec")
    assert text.startswith('"""my-model: ')
    assert "    transload run my_model.py\n" in text
    assert "$" not in text
    assert max(map(len, text.splitlines())) <= 120
    recipe = load_recipe(CodeRef(str(path)))
    assert (recipe.name, recipe.metric.name) == ("my-model", METRICS[task])


@TASKS
def test_its_data_fit_its_signature_and_its_metric_is_the_better_the_nearer_to_the_labels(
    task: Task, tmp_path: Path
) -> None:
    recipe = load_recipe(CodeRef(str(write_recipe("my-model", tmp_path, task))))
    splits = recipe.data()
    for split in (splits.train, splits.validation, splits.test):
        assert len(split) >= 28
        for spec in recipe.signature.inputs:
            array = split.inputs[spec.name]
            assert (str(array.dtype), array.shape[1:]) == (spec.dtype, tuple(spec.shape[1:]))
            if spec.values:
                assert spec.values.low <= array.min()
                assert array.max() <= spec.values.high
    labels = np.asarray(splits.test.labels)
    (output,) = recipe.signature.outputs
    if task is Task.REGRESSION:
        right, wrong = labels, labels + 50
    else:
        classes = np.eye(int(output.shape[1]), dtype=np.float32)
        axes = (0, labels.ndim, *range(1, labels.ndim))  # the classes go behind the batch
        right, wrong = (classes[picked].transpose(axes) for picked in (labels, (labels + 1) % len(classes)))
    best, worst = (recipe.metric.score({output.name: answer}, labels).mean() for answer in (right, wrong))
    assert best == (0 if task is Task.REGRESSION else 1)
    assert (best > worst) == recipe.metric.higher_is_better


@TASKS
@pytest.mark.slow
def test_it_runs_as_it_is_and_every_artifact_keeps_its_tolerance(task: Task, tmp_path: Path) -> None:
    write_recipe("my-model", tmp_path, task)
    command = [sys.executable, "-P", "-m", "transload", "run", "my_model.py", "--no-bench", "--quiet", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"] == "pass"
    assert {row["format"] for row in document["artifacts"]} >= {"pt2", "torchscript", "onnx", "saved-model", "tflite"}


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "wine.py").write_text("mine\n")
    with pytest.raises(BadRequest, match=r"wine\.py is there already"):
        write_recipe("wine", tmp_path)
    assert (tmp_path / "wine.py").read_text() == "mine\n"


@pytest.mark.parametrize("name", ["", "../wine", "Wine", "1wine", "wi ne", "wine.py", "-wine", "a--b", 'a"b', "$name"])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="a recipe cannot be called"):
        write_recipe(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no such folder"):
        write_recipe("wine", tmp_path / "none")


def test_the_page_on_recipes_names_every_task() -> None:
    page = (Path(__file__).parents[4] / "docs" / "recipes.md").read_text()
    assert set(re.findall(r"`--task (\w+)`", page)) == set(Task)
