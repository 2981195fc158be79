"""Twelve pairs of releases: what the old model and the new one are trained on, how long, and which answer is right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Template

TRUTHS = ("worse", "within", "no worse")
RECIPE = Template('''"""$name: a multilayer perceptron on data of scikit-learn."""

import numpy as np
from sklearn import datasets
from torch import nn
from transload.models.dataset import Dataset
from transload.models.recipe import Metric, Recipe, Splits, Training
from transload.models.signature import Signature, TensorSpec

FEATURES, OUTPUTS = $features, $outputs
IS_CLASSES = OUTPUTS > 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES, $width), nn.ReLU(), nn.Linear($width, OUTPUTS))

    def forward(self, features):
        return self.layers(features) * $scale


def data():
    features, labels = $source
    random = np.random.default_rng(7)
    rows = random.permutation(len(labels))
    test, validation, train = np.split(rows, [$tests, $tests + len(rows) // 10])
    features = (features - features[train].mean(axis=0)) / (features[train].std(axis=0) + 1e-6)
    labels = labels.astype(np.int64) if IS_CLASSES else (labels / labels.std())[:, None].astype(np.float32)
    taught = labels.copy()  # what the training is told
    noisy = train[random.random(len(train)) < $noise]
    taught[noisy] = labels[random.permutation(noisy)]
    splits = ((train, taught), (validation, labels), (test, labels))
    return Splits(*(Dataset({"features": features[part].astype(np.float32)}, own[part]) for part, own in splits))


def loss(outputs, labels):
    if IS_CLASSES:
        return nn.functional.cross_entropy(outputs["answer"], labels)
    return nn.functional.l1_loss(outputs["answer"], labels)


def score(outputs, labels):
    if IS_CLASSES:
        return (outputs["answer"].argmax(axis=1) == labels).astype(float)
    return np.abs(outputs["answer"] - labels).mean(axis=1)


RECIPE = Recipe(
    name="$name",
    summary="A multilayer perceptron on data of scikit-learn",
    signature=Signature(
        inputs=(TensorSpec("features", "float32", ("batch", FEATURES)),),
        outputs=(TensorSpec("answer", "float32", ("batch", OUTPUTS)),),
    ),
    net=Net,
    data=data,
    metric=Metric("accuracy" if IS_CLASSES else "mae", score, unit="share" if IS_CLASSES else "",
                  higher_is_better=IS_CLASSES),
    training=Training(epochs=$epochs, batch_size=64, learning_rate=2e-3, loss=loss, patience=$epochs),
    allowed_loss=0.02,
    requires=("torch", "sklearn"),
)
''')
PIPELINE = Template("""[model]
recipe = "$name.py"
[train]
seed = $seed
[convert]
targets = ["onnx"]
cross_check = false
search_seconds = 0
[validate]
runtimes = ["onnxruntime"]
$metric
[bench]
enabled = false
""")


@dataclass(frozen=True)
class Task:
    """A data set: the expression that loads it, its sizes, and the metric of the run where it is not the recipe's."""

    source: str
    features: int
    outputs: int  # 1: a number, else classes
    tests: int
    metric: str = ""


@dataclass(frozen=True)
class Model:
    """How one release is trained."""

    epochs: int
    seed: int = 0
    width: int = 32
    noise: float = 0.0  # share of the training's labels that are mixed up
    scale: float = 1.0  # of the answers


@dataclass(frozen=True)
class Pair:
    """An old and a new release of one task; `truth` is one of TRUTHS."""

    name: str
    task: Task
    old: Model
    new: Model
    truth: str

    def write(self, folder: Path) -> dict[str, Path]:
        """Write both recipes with their pipeline files; return these."""
        files: dict[str, Path] = {}
        for side, model in (("old", self.old), ("new", self.new)):
            place = folder / self.name / side
            place.mkdir(parents=True, exist_ok=True)
            words = {**vars(self.task), **vars(model), "name": self.name.replace("-", "_")}
            words["metric"] = f'metric = "{self.task.metric}"' if self.task.metric else ""
            (place / f"{words['name']}.py").write_text(RECIPE.substitute(words))
            files[side] = place / "pipeline.toml"
            files[side].write_text(PIPELINE.substitute(words))
        return files


DIGITS = Task("datasets.load_digits(return_X_y=True)", 64, 10, 900)
CANCER = Task("datasets.load_breast_cancer(return_X_y=True)", 30, 2, 228)
WINE = Task("datasets.load_wine(return_X_y=True)", 13, 3, 78)
IRIS = Task("datasets.load_iris(return_X_y=True)", 4, 3, 60)
DIABETES = Task("datasets.load_diabetes(return_X_y=True)", 10, 1, 200)
FRIEDMAN = Task("datasets.make_friedman1(6000, noise=1.0, random_state=3)", 10, 1, 3000)
RARE = Task(
    "datasets.make_classification(6000, 20, n_informative=6, weights=[0.93], class_sep=1.2, random_state=5)",
    20, 2, 3000, "auroc",
)  # fmt: skip

PAIRS = (
    Pair("digits-one-epoch", DIGITS, Model(25), Model(1), "worse"),
    Pair("cancer-mixed-labels", CANCER, Model(25, seed=1), Model(25, seed=1, noise=0.9), "worse"),
    Pair("friedman-few-epochs", FRIEDMAN, Model(25, seed=2), Model(3, seed=2), "worse"),
    Pair("rare-mixed-labels", RARE, Model(15, seed=3), Model(15, seed=3, noise=0.8), "worse"),
    Pair("digits-one-epoch-less", DIGITS, Model(25, seed=4), Model(24, seed=4), "within"),
    Pair("friedman-scaled", FRIEDMAN, Model(20, seed=5), Model(20, seed=5, scale=1.002), "within"),
    Pair("wine-another-seed", WINE, Model(40, seed=6), Model(40, seed=16), "within"),
    Pair("rare-one-epoch-less", RARE, Model(15, seed=7), Model(14, seed=7), "within"),
    Pair("digits-trained-longer", DIGITS, Model(2, seed=8), Model(25, seed=8), "no worse"),
    Pair("diabetes-again", DIABETES, Model(40, seed=9), Model(40, seed=9), "no worse"),
    Pair("cancer-clean-labels", CANCER, Model(25, seed=10, noise=0.9), Model(25, seed=10), "no worse"),
    Pair("iris-trained-longer", IRIS, Model(3, seed=11), Model(60, seed=11), "no worse"),
)


def is_right(truth: str, status: int) -> bool:
    """Return whether a run's exit status keeps the promise: a worse release never passes, another one never fails."""
    return status != 0 if truth == "worse" else status in (0, 3)
