"""The training step: fit a recipe's net through Lightning Fabric (docs/design/training.md).

Fabric brings mixed precision, several devices and checkpoints by one setting each.

All randomness of an epoch comes from (seed, epoch), and the learning rate from the step's number alone. So a training
that goes on from a checkpoint takes the very steps that an unbroken one takes, and no generator's state is kept.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dataset import Dataset, take
from ..errors import BadRequest, StepFailed, ToolMissing
from ..job import Job
from ..job_records import TrainFacts, TrainOptions
from ..loading.build import call_model
from ..loading.code_refs import load_recipe, ref_digest
from ..loading.module_checks import check_steady
from ..loading.user_code import user_code
from ..loading.weight_files import load_weights, write_weights
from ..recipe import Recipe, Splits
from ..signature import Array
from ..sources import WEIGHTS, Source, write_source
from .checkpoints import read_checkpoint, save_checkpoint
from .data import load_splits

if TYPE_CHECKING:
    import torch
    from lightning_fabric import Fabric

PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")
ACCELERATORS = ("cpu", "cuda")
_WARM_UP = 0.1  # the share of all steps in which the learning rate rises
_SCORE_BATCH = 256
_EXPLODED = 1000.0  # times the first loss: the training is lost


def train(job: Job) -> Mapping[str, Any]:
    """Fit the recipe, and write weights.safetensors and source.json into `out`: TrainOptions -> TrainFacts.
    Raises BadRequest and ToolMissing before any work, StepFailed where the loss is no number any more."""
    from lightning_fabric import Fabric
    from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

    options = TrainOptions.from_json(job.options)
    code = ref_digest(options.code_ref)
    _check_options(options)
    load_recipe(options.code_ref)  # raises its errors in this process
    _require_devices(options)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else cuBLAS adds in an order of its own
    fabric = Fabric(
        accelerator=options.accelerator,
        devices=[options.gpu] if options.devices == 1 and options.gpu is not None else options.devices,
        strategy="auto" if options.devices == 1 else "ddp_spawn",
        precision=options.precision,  # type: ignore[arg-type]
    )
    try:
        facts: dict[str, Any] = fabric.launch(
            partial(_fit, options=options, code=code, out=job.out, checkpoints=job.checkpoints)
        )
    except (ProcessRaisedException, ProcessExitedException) as error:
        reason = str(error).strip().splitlines()[-1]
        raise StepFailed(f"training on {options.devices} devices failed: {reason}", fix="try devices = 1") from error
    return facts


def _check_options(options: TrainOptions) -> None:
    for word, allowed in ((options.precision, PRECISIONS), (options.accelerator, ACCELERATORS)):
        if word not in allowed:
            raise BadRequest(f"cannot train with {word!r}", fix=f"use one of {', '.join(allowed)}")
    if options.seed < 0:
        raise BadRequest(f"cannot train with the seed {options.seed}", fix="seed is 0 or more")
    if options.devices < 1:
        raise BadRequest(f"cannot train on {options.devices} devices", fix="devices is 1 or more")
    if options.epochs is not None and options.epochs < 1:
        raise BadRequest(f"cannot train for {options.epochs} epochs", fix="epochs is 1 or more")
    if options.precision == "16-mixed" and options.accelerator == "cpu":
        raise BadRequest("16-mixed needs a GPU: the CPU does not train in float16", fix="use bf16-mixed or 32-true")


def _require_devices(options: TrainOptions) -> None:
    import torch

    if options.accelerator == "cpu":
        return
    if not torch.cuda.is_available():
        raise ToolMissing(
            "training was asked for on cuda and torch finds no CUDA device here",
            fix="train on the cpu, or install a CUDA build of torch on a machine with a GPU",
        )
    if (options.gpu or 0) >= torch.cuda.device_count():
        raise ToolMissing(
            f"training was asked for on cuda:{options.gpu} and torch finds {torch.cuda.device_count()} GPUs here",
            fix="name one that is there",
        )
    if options.devices > torch.cuda.device_count():
        raise ToolMissing(
            f"training was asked for on {options.devices} GPUs and {torch.cuda.device_count()} are here",
            fix=f"set devices to {torch.cuda.device_count()} or less",
        )


def _fit(fabric: Fabric, options: TrainOptions, code: str, out: Path, checkpoints: Path | None) -> dict[str, Any]:
    """Do one process's part of the training. Runs in a spawned process where there are several devices."""
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    ref = options.code_ref
    recipe = load_recipe(ref)
    splits = load_splits(recipe, ref)
    plan = repr((replace(options, threads=None), code))
    fitting = _Fitting.start(fabric, options, plan, recipe, splits, checkpoints)
    with user_code(f"training {recipe.name}", ref):
        stopped = fitting.run()
    if not fabric.is_global_zero:
        return {}
    best = recipe.net()
    load_weights(best, fitting.progress.best)
    best.eval().requires_grad_(False)
    check_steady(best, recipe.signature)
    write_weights(out / WEIGHTS, fitting.progress.best)
    write_source(out, Source(ref, recipe.signature, code))
    return TrainFacts(
        metric=recipe.metric.name,
        validation=score(best, recipe, splits.validation),
        test=score(best, recipe, splits.test),
        epochs=fitting.progress.epoch,
        stopped=stopped,
        parameters=sum(weight.numel() for weight in best.parameters()),
        train_seconds=round(fitting.progress.seconds, 3),
    ).to_json()


@dataclass
class _TrainingProgress:
    """Progress of a training. Plain values and tensors, so that a checkpoint needs no pickle."""

    epoch: int = 0  # epochs done
    best_loss: float = math.inf  # on the validation split
    best_epoch: int = 0
    seconds: float = 0.0
    first_loss: float | None = None  # of the first step
    best: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass
class _Fitting:
    """One training under way, in one process."""

    fabric: Fabric
    options: TrainOptions
    plan: str  # options and code: two equal plans on one machine end in the same weights
    recipe: Recipe
    splits: Splits
    model: torch.nn.Module  # Fabric's wrapper around the net
    optimizer: torch.optim.Optimizer  # and around the optimizer
    checkpoints: Path | None
    progress: _TrainingProgress
    steady: frozenset[str]  # the weights that are finite before the first step

    @staticmethod
    def start(  # noqa: PLR0917  (each is a field)
        fabric: Fabric, options: TrainOptions, plan: str, recipe: Recipe, splits: Splits, checkpoints: Path | None
    ) -> _Fitting:
        """Make the net from the seed, or as the checkpoint left it."""
        import torch

        fabric.seed_everything(_seed(options.seed), verbose=False)
        with user_code(f"making the net of {recipe.name}", options.code_ref):
            net = recipe.net()
        training = recipe.training
        optimizer = torch.optim.AdamW(net.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)
        model, optimizer = fabric.setup(net, optimizer)
        progress, state = _TrainingProgress(), model.state_dict()
        steady = frozenset(name for name in state if _is_finite(state[name]))
        fitting = _Fitting(fabric, options, plan, recipe, splits, model, optimizer, checkpoints, progress, steady)
        fitting._resume()
        return fitting

    @property
    def epochs(self) -> int:
        return self.options.epochs or self.recipe.training.epochs

    def run(self) -> str:
        """Train to the end. Returns why it ended there."""
        while (stopped := self._ended()) is None:
            started = perf_counter()
            loss = self._train_epoch()
            validation_loss = self._judge()
            self._check_course(loss, validation_loss)
            self._note(validation_loss)
            self.progress.seconds += perf_counter() - started
            self._save()
            left_s = self.progress.seconds / self.progress.epoch * (self.epochs - self.progress.epoch)
            self.fabric.print(
                f"epoch {self.progress.epoch}/{self.epochs}  loss {loss:.4f}  validation loss {validation_loss:.4f}"
                f"  best {self.progress.best_loss:.4f}  rate {self._rate:.3g}  {left_s:.0f} s left",
                flush=True,
            )
        return stopped

    def _ended(self) -> str | None:
        if self.progress.epoch - self.progress.best_epoch >= self.recipe.training.patience:
            return "early"
        return "epochs" if self.progress.epoch >= self.epochs else None

    def _train_epoch(self) -> float:
        import torch

        epoch, rank = self.progress.epoch, self.fabric.global_rank
        self.fabric.seed_everything(_seed(self.options.seed, epoch, rank), verbose=False)  # dropout
        generator = torch.Generator().manual_seed(_seed(self.options.seed, epoch, rank, 1))
        self.model.train()
        losses = []
        batches = list(self._batches())
        for at, rows in enumerate(batches):
            for group in self.optimizer.param_groups:
                done = (epoch * len(batches) + at) / (self.epochs * len(batches))
                group["lr"] = self.recipe.training.learning_rate * rate(done)
            loss = self._loss(take(self.splits.train, rows), generator)
            self.fabric.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(float(loss.detach()))
            if self.progress.first_loss is None:
                self.progress.first_loss = losses[0]
        return sum(losses) / len(losses)

    def _batches(self) -> Iterator[Array]:
        """Yield the row numbers of each batch, this process's share of them.
        The order depends on seed and epoch alone. An incomplete last batch waits for another epoch, since batch norm
        cannot learn from a single row."""
        order = np.random.default_rng([self.options.seed, self.progress.epoch]).permutation(len(self.splits.train))
        size = min(self.recipe.training.batch_size, len(order))
        for start in range(0, len(order) - size + 1, size):
            yield order[start : start + size][self.fabric.global_rank :: self.fabric.world_size]

    def _loss(self, batch: Dataset, generator: torch.Generator | None = None) -> torch.Tensor:
        import torch

        inputs: Mapping[str, torch.Tensor] = {name: torch.from_numpy(value) for name, value in batch.inputs.items()}
        if generator is not None and self.recipe.training.augment is not None:
            inputs = self.recipe.training.augment(inputs, generator)
        labels = self.fabric.to_device(torch.from_numpy(np.asarray(batch.labels)))
        signature = self.recipe.signature
        ordered = [self.fabric.to_device(inputs[spec.name]) for spec in signature.inputs]
        return self.recipe.training.loss(call_model(self.model, signature, ordered), labels)

    def _judge(self) -> float:
        """Return the mean validation loss, the same number in every process."""
        import torch

        data, total = self.splits.validation, 0.0
        self.model.eval()
        with torch.no_grad():
            for start in range(0, len(data), _SCORE_BATCH):
                batch = data.rows(start, start + _SCORE_BATCH)
                total += float(self._loss(batch)) * len(batch)
        return self.fabric.broadcast(total / len(data))

    @property
    def _rate(self) -> float:
        """The learning rate of the last step."""
        return float(self.optimizer.param_groups[0]["lr"])

    def _check_course(self, loss: float, validation_loss: float) -> None:
        """Raise StepFailed where the training diverges: a loss or a weight that is no number, or a loss that explodes.
        What is not finite before the first step, as a mask, may stay so."""
        first = self.progress.first_loss
        weights = self.model.state_dict()
        broken = next((name for name in weights if name in self.steady and not _is_finite(weights[name])), None)
        exploded = first is not None and min(loss, validation_loss) > _EXPLODED * abs(first) > 0
        if not math.isfinite(validation_loss):
            course = f"the validation loss is {validation_loss}"
        elif broken:
            course = f"{broken} holds NaN or an infinity"
        elif exploded:
            course = f"the loss has risen from {first:.3g} to {loss:.3g}"
        else:
            return
        peak, epoch = self.recipe.training.learning_rate, self.progress.epoch + 1
        raise StepFailed(
            f"the training diverged in epoch {epoch} of {self.epochs}, at the learning rate {self._rate:.3g} "
            f"(at most {peak:g}): {course}",
            fix=f"lower learning_rate in the Training of {self.options.code_ref.text}, as to {peak / 10:g}",
        )

    def _note(self, loss: float) -> None:
        self.progress.epoch += 1
        if loss < self.progress.best_loss:
            self.progress.best_loss, self.progress.best_epoch = loss, self.progress.epoch
            self.progress.best = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}

    def _save(self) -> None:
        if self.checkpoints is None:
            return
        state = {"plan": self.plan, "model": self.model, "optimizer": self.optimizer}
        scaling = self.fabric.strategy.precision.state_dict()
        save_checkpoint(self.fabric, self.checkpoints, {**state, "scaling": scaling, "progress": vars(self.progress)})

    def _resume(self) -> None:
        state = read_checkpoint(self.checkpoints, self.plan) if self.checkpoints else None
        if state is None:
            return
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.fabric.strategy.precision.load_state_dict(state["scaling"])
        self.progress = _TrainingProgress(**state["progress"])
        self.fabric.print(f"going on after epoch {self.progress.epoch}", flush=True)


def _is_finite(weight: torch.Tensor) -> bool:
    return not weight.is_floating_point() or bool(weight.isfinite().all())


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def rate(done: float) -> float:
    """Return the share of the peak learning rate after `done` (0..1) of all steps.
    It goes up in a line, then down in half a cosine (Loshchilov and Hutter, 2017, SGDR, without restarts)."""
    if done < _WARM_UP:
        return 0.05 + 0.95 * done / _WARM_UP
    return 0.5 * (1 + math.cos(math.pi * (done - _WARM_UP) / (1 - _WARM_UP)))


def score(model: torch.nn.Module, recipe: Recipe, data: Dataset) -> float:
    """Return the recipe's metric of a model on the CPU, over all of `data`."""
    import torch

    parts = []
    with torch.no_grad():
        for start in range(0, len(data), _SCORE_BATCH):
            batch = data.rows(start, start + _SCORE_BATCH)
            inputs = [torch.from_numpy(batch.inputs[spec.name]) for spec in recipe.signature.inputs]
            outputs = call_model(model, recipe.signature, inputs)
            parts.append(recipe.metric.score({n: v.numpy() for n, v in outputs.items()}, np.asarray(batch.labels)))
    return float(np.concatenate(parts).mean())
