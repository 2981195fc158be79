"""Training for real: repeatable, stoppable, and able to go on after a kill."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from transload.models.errors import BadRequest, SessionLost, StepFailed, ToolMissing
from transload.models.job import Job
from transload.models.loading.build import build_model
from transload.models.loading.code_refs import load_recipe
from transload.models.sources import WEIGHTS, CodeRef, read_source
from transload.models.training import fit
from transload.models.training.checkpoints import FILE, save_checkpoint
from transload.models.training.fit import rate, score, train
from transload.models.zoo.template import write_recipe

SLOW = '''

import dataclasses, time

def noisy(inputs, generator):
    """Draws from every generator that a user might, and takes its time."""
    time.sleep(0.02)
    noise = torch.randn(inputs["features"].shape, generator=generator) + torch.rand(()) + np.random.rand()
    return {"features": inputs["features"] + 0.05 * noise.float()}

RECIPE = dataclasses.replace(RECIPE, training=dataclasses.replace(RECIPE.training, augment=noisy))
'''


@pytest.fixture
def wine(tmp_path: Path) -> Path:
    path = write_recipe("wine", tmp_path)
    path.write_text(path.read_text() + SLOW.replace("time.sleep(0.02)", "pass"))
    return path


def job(recipe: Path | str, out: Path, checkpoints: Path | None = None, **options: Any) -> Job:
    out.mkdir()
    if checkpoints:
        checkpoints.mkdir(exist_ok=True)
    return Job({}, out, {"ref": str(recipe), "threads": 1, **options}, checkpoints=checkpoints)


def digest_of(folder: Path) -> bytes:
    return (folder / WEIGHTS).read_bytes()


def test_the_template_trains_as_it_is_and_leaves_a_source(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write_recipe("wine", tmp_path)
    facts = train(job("wine.py", tmp_path / "out", root=str(tmp_path)))
    assert facts["metric"] == "accuracy"
    assert facts["test"] > 0.9
    assert facts["parameters"] == 13 * 32 + 32 + 64 + 32 * 3 + 3
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith("epoch ")]
    assert len(lines) == facts["epochs"]
    assert re.fullmatch(
        r"epoch 1/40  loss \d\.\d{4}  validation loss \d\.\d{4}  best \d\.\d{4}  rate 0\.00\d+  \d+ s left", lines[0]
    )
    assert lines[-1].endswith(" 0 s left")
    source = read_source(tmp_path / "out")
    assert source.ref == CodeRef("wine.py", str(tmp_path))
    recipe = load_recipe(CodeRef(str(path)))
    assert source.signature == recipe.signature
    assert score(build_model(tmp_path / "out"), recipe, recipe.data().test) == facts["test"]


def test_one_seed_gives_one_set_of_weights_and_another_seed_another(wine: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 2**63 + 5)):
        train(job(wine, tmp_path / name, seed=seed, epochs=3))
    assert digest_of(tmp_path / "a") == digest_of(tmp_path / "b")
    assert digest_of(tmp_path / "a") != digest_of(tmp_path / "c")


def test_checkpoints_change_nothing(wine: Path, tmp_path: Path) -> None:
    train(job(wine, tmp_path / "a", epochs=3))
    train(job(wine, tmp_path / "b", tmp_path / "checkpoints", epochs=3))
    assert digest_of(tmp_path / "a") == digest_of(tmp_path / "b")


RUN = """
import json, sys
from pathlib import Path
from transload.models.job import Job
from transload.models.training.fit import train
ref, out, checkpoints, options = sys.argv[1:]
print(json.dumps(train(Job({}, Path(out), {"ref": ref, **json.loads(options)}, checkpoints=Path(checkpoints)))))
"""


def start(recipe: Path, out: Path, checkpoints: Path, **options: Any) -> subprocess.Popen[str]:
    for folder in (out, checkpoints):
        folder.mkdir(exist_ok=True)
    argv = [sys.executable, "-c", RUN, str(recipe), str(out), str(checkpoints), json.dumps({"threads": 1, **options})]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def told(given: Job, capfd: pytest.CaptureFixture[str]) -> tuple[list[str], dict[str, Any]]:
    """What a training in this process prints, and its facts but for the time it took."""
    capfd.readouterr()
    facts = train(given)
    return capfd.readouterr().out.splitlines(), {**facts, "train_seconds": 0}


@pytest.mark.parametrize("precision", ["32-true", pytest.param("bf16-mixed", marks=pytest.mark.slow)])
def test_a_killed_training_goes_on_and_ends_in_the_same_weights(
    precision: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_recipe("wine", tmp_path)
    path.write_text(path.read_text() + SLOW)
    options = {"epochs": 9, "precision": precision, "seed": 2}
    unbroken, facts = told(job(path, tmp_path / "whole", tmp_path / "none", **options), capfd)
    killed = start(path, tmp_path / "out", tmp_path / "checkpoints", **options)
    assert killed.stdout is not None
    for line in killed.stdout:
        if line.startswith("epoch 4/"):
            os.kill(killed.pid, signal.SIGKILL)
            break
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "out" / WEIGHTS).exists()
    said, resumed = told(job(path, tmp_path / "resumed", tmp_path / "checkpoints", **options), capfd)
    gone_on = re.fullmatch(r"going on after epoch (\d)", said[0])
    assert gone_on
    assert 4 <= int(gone_on[1]) < 9
    lines = [line.rpartition("  ")[0] for line in (*said[1:], *unbroken[int(gone_on[1]) :])]  # without the time left
    assert lines[: len(said) - 1] == lines[len(said) - 1 :]
    assert digest_of(tmp_path / "resumed") == digest_of(tmp_path / "whole")
    assert resumed == facts


def test_wherever_it_is_cut_the_best_weights_and_the_patience_are_kept(
    wine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = wine.read_text().replace("learning_rate=5e-3", "learning_rate=1.0").replace("patience=10", "patience=2")
    wine.write_text(text)
    whole = train(job(wine, tmp_path / "whole"))
    assert whole["stopped"] == "early"
    for epochs in range(1, whole["epochs"]):
        saves = iter(range(1, 100))

        def save_and_stop(*args: Any, at: int = epochs, count: Any = saves) -> None:
            save_checkpoint(*args)
            if next(count) == at:
                raise SessionLost("cut", fix="")  # KeyboardInterrupt would be taken for the user's

        folder = tmp_path / str(epochs)
        monkeypatch.setattr(fit, "save_checkpoint", save_and_stop)
        with pytest.raises(SessionLost):
            train(job(wine, tmp_path / f"cut{epochs}", folder))
        monkeypatch.setattr(fit, "save_checkpoint", save_checkpoint)
        facts = train(job(wine, tmp_path / f"out{epochs}", folder))
        assert {**facts, "train_seconds": 0} == {**whole, "train_seconds": 0}
        assert digest_of(tmp_path / f"out{epochs}") == digest_of(tmp_path / "whole")


def test_a_finished_training_is_not_trained_again(
    wine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = train(job(wine, tmp_path / "a", tmp_path / "checkpoints", epochs=2))
    capfd.readouterr()
    assert train(job(wine, tmp_path / "b", tmp_path / "checkpoints", epochs=2)) == first
    assert capfd.readouterr().out.splitlines() == ["going on after epoch 2"]
    assert digest_of(tmp_path / "a") == digest_of(tmp_path / "b")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "starting again: the checkpoint cannot be read"),
        (lambda path: path.write_bytes(b""), "starting again: the checkpoint cannot be read"),
        (lambda path: torch.save([1], path), "starting again: the checkpoint is of another training"),
    ],
)
def test_a_spoilt_checkpoint_is_not_gone_on_from(
    spoil: Any, words: str, wine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train(job(wine, tmp_path / "a", tmp_path / "checkpoints", epochs=2))
    spoil(tmp_path / "checkpoints" / FILE)
    capfd.readouterr()
    train(job(wine, tmp_path / "b", tmp_path / "checkpoints", epochs=2))
    assert capfd.readouterr().out.startswith(words)
    assert digest_of(tmp_path / "a") == digest_of(tmp_path / "b")


def test_a_checkpoint_of_other_code_or_another_plan_is_not_gone_on_from(
    wine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train(job(wine, tmp_path / "a", tmp_path / "checkpoints", epochs=2))
    train(job(wine, tmp_path / "b", tmp_path / "checkpoints", epochs=2, seed=9))
    wine.write_text(wine.read_text() + "# changed\n")
    train(job(wine, tmp_path / "c", tmp_path / "checkpoints", epochs=2, seed=9))
    assert capfd.readouterr().out.count("starting again: the checkpoint is of another training") == 2


def test_training_stops_early_and_keeps_the_best_weights(
    wine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = wine.read_text().replace("learning_rate=5e-3", "learning_rate=1.0").replace("patience=10", "patience=2")
    wine.write_text(text)
    facts = train(job(wine, tmp_path / "out"))
    assert facts["stopped"] == "early"
    losses = [float(found) for found in re.findall(r"validation loss (\S+)", capfd.readouterr().out)]
    assert len(losses) == facts["epochs"] < 40
    assert min(losses) == losses[-3]
    recipe = load_recipe(CodeRef(str(wine)))
    data = recipe.data().validation
    model = build_model(tmp_path / "out")
    with torch.no_grad():
        outputs = {"logits": model(torch.from_numpy(data.inputs["features"]))}
    kept = float(recipe.training.loss(outputs, torch.from_numpy(data.labels)))
    assert kept == pytest.approx(losses[-3], abs=1e-4)


def test_bfloat16_training_differs_and_still_learns_and_leaves_fp32_weights(wine: Path, tmp_path: Path) -> None:
    train(job(wine, tmp_path / "a", epochs=3))
    facts = train(job(wine, tmp_path / "b", precision="bf16-mixed"))
    assert facts["test"] > 0.9
    assert digest_of(tmp_path / "a") != digest_of(tmp_path / "b")
    assert {value.dtype for value in load_file(tmp_path / "b" / WEIGHTS).values()} == {torch.float32, torch.int64}


@pytest.mark.slow
def test_two_devices_share_one_training(wine: Path, tmp_path: Path) -> None:
    done = start(wine, tmp_path / "out", tmp_path / "checkpoints", devices=2, epochs=12)
    lines = done.communicate()[0].splitlines()
    assert done.returncode == 0
    assert json.loads(lines[-1])["test"] > 0.8
    assert sum(line.startswith("epoch ") for line in lines) == 12  # said once, and not by each process
    again = start(wine, tmp_path / "again", tmp_path / "checkpoints", devices=2, epochs=12)
    assert again.communicate()[0].startswith("going on after epoch 12")
    assert digest_of(tmp_path / "out") == digest_of(tmp_path / "again")


REFUSED: dict[str, tuple[dict[str, Any], type[BadRequest], str]] = {
    "fp16 on the cpu": (
        {"precision": "16-mixed"},
        BadRequest,
        "16-mixed needs a GPU: the CPU does not train in float16\n  fix: use bf16-mixed or 32-true",
    ),
    "a precision that is none": (
        {"precision": "fp8"},
        BadRequest,
        "cannot train with 'fp8'\n  fix: use one of 32-true, bf16-mixed, 16-mixed",
    ),
    "no devices": (
        {"devices": 0},
        BadRequest,
        "cannot train on 0 devices\n  fix: devices is 1 or more",
    ),
    "a seed below zero": ({"seed": -1}, BadRequest, "cannot train with the seed -1\n  fix: seed is 0 or more"),
    "no epochs": ({"epochs": 0}, BadRequest, "cannot train for 0 epochs\n  fix: epochs is 1 or more"),
    "cuda where there is none": (
        {"accelerator": "cuda"},
        ToolMissing,
        "training was asked for on cuda and torch finds no CUDA device here\n"
        "  fix: train on the cpu, or install a CUDA build of torch on a machine with a GPU",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_is_refused(
    case: str, wine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, kind, text = REFUSED[case]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(kind) as caught:
        train(job(wine, tmp_path / "out", **options))
    assert str(caught.value) == text


PLAIN = ("torch.relu(self.norm(", "torch.relu((")
DIVERGING: dict[str, tuple[tuple[tuple[str, str], ...], str]] = {
    "NaN at once": ((('outputs["logits"], labels)', 'outputs["logits"] * float("inf"), labels)'),),
                    "the validation loss is nan"),
    "a rate that is too high": ((PLAIN, ("learning_rate=5e-3", "learning_rate=1e9")),
                                "the loss has risen from "),
    "a weight that no output shows": (
        (("        self.head = nn.Linear(32, 3)", "        self.head = nn.Linear(32, 3)\n"
          "        self.register_buffer('mask', torch.tensor([float('-inf')]))\n"
          "        self.register_buffer('count', torch.zeros(1))"),
         ("    def forward(self, features):", "    def forward(self, features):\n        self.count /= 0")),
        "count holds NaN or an infinity"),
}  # fmt: skip


@pytest.mark.parametrize("case", DIVERGING)
def test_a_training_that_diverges_says_so_with_epoch_and_rate(case: str, wine: Path, tmp_path: Path) -> None:
    changes, course = DIVERGING[case]
    for before, after in changes:
        assert before in wine.read_text()
        wine.write_text(wine.read_text().replace(before, after))
    with pytest.raises(StepFailed) as caught:
        train(job(wine, tmp_path / "out", epochs=4))
    assert re.match(r"the training diverged in epoch 1 of 4, at the learning rate \S+ \(at most ", caught.value.what)
    assert course in caught.value.what
    assert re.fullmatch(rf"lower learning_rate in the Training of {wine}, as to \S+", caught.value.fix)
    for innocent in ("data", "precision", "32-true"):
        assert innocent not in str(caught.value).replace(str(wine), "")


def test_a_mask_of_infinities_is_no_divergence(wine: Path, tmp_path: Path) -> None:
    head = "        self.head = nn.Linear(32, 3)"
    mask = "\n        self.register_buffer('mask', torch.tensor([float('-inf'), 0.0]))"
    wine.write_text(wine.read_text().replace(head, head + mask))
    assert train(job(wine, tmp_path / "out", epochs=2))["epochs"] == 2


def test_a_users_loss_that_raises_is_told_with_its_line(wine: Path, tmp_path: Path) -> None:
    wine.write_text(wine.read_text().replace('outputs["logits"], labels)', 'outputs["logit"], labels)'))
    with pytest.raises(BadRequest, match=r"training wine raised KeyError at .*wine\.py:\d+: 'logit'"):
        train(job(wine, tmp_path / "out"))


def test_the_learning_rate_rises_and_falls_within_its_peak() -> None:
    rates = [rate(at / 100) for at in range(101)]
    assert rates[0] > 0
    assert max(rates) == rates[10] == pytest.approx(1)
    assert rates[:11] == sorted(rates[:11])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[100] == pytest.approx(0)


@pytest.mark.slow
def test_digits_cnn_reaches_98_per_cent(tmp_path: Path) -> None:
    facts = train(job("zoo:digits-cnn", tmp_path / "out", threads=2))
    assert facts["test"] >= 0.98
    assert facts["parameters"] == 150250
