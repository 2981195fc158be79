"""The benchmark's models: where each is made, its family, its declared inputs, and data where it has some."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from declarations import Array, Call, Draw, Input, declared_calls, normal, random_calls, stress_calls, uniform

if TYPE_CHECKING:
    from torch import nn

NETS = Path(__file__).resolve().parent / "nets"
_COLUMN_MEANS = (40.0, 52_000.0, 0.02, 3.0, 1e6, -5.0, 0.5, 700.0)
_COLUMN_STDS = (12.0, 21_000.0, 0.01, 1.5, 4e5, 2.0, 0.2, 90.0)


@dataclass(frozen=True)
class Model:
    """A model of the benchmark."""

    name: str
    family: str
    ref: str  # "vision.py:u_net", in nets/
    inputs: tuple[Input, ...]
    with_labels: bool = False  # its user has samples with labels, and gives them with --data

    @property
    def argument(self) -> str:
        """The MODEL argument of transload."""
        return str(NETS / self.ref)

    def build(self) -> nn.Module:
        """Return a new copy of the module, with its seeded weights."""
        import importlib

        file, _, factory = self.ref.partition(":")
        if str(NETS) not in sys.path:
            sys.path.insert(0, str(NETS))
        module: nn.Module = getattr(importlib.import_module(Path(file).stem), factory)()
        return module

    def calls(self) -> list[Call]:
        """Return all calls that the truth is measured at: random, declared, stress."""
        return [*random_calls(self.inputs), *declared_calls(self.inputs), *stress_calls(self.inputs)]


def _columns() -> Draw:
    return lambda rng, shape: rng.normal(_COLUMN_MEANS, _COLUMN_STDS, shape)


_IMAGE = Input("image=float32[batch,3,height=17..48,width=17..48]")
_FRAMES = Input("frames=float32[batch,time=1..40,6]")

MODELS = (
    Model("batch-norm-net", "CNN with batch norm and pooling", "vision.py:batch_norm_net", (_IMAGE,)),
    Model("residual-net", "residual CNN, flattened", "vision.py:residual_net",
          (Input("image=float32[batch,3,16,16]"),)),
    Model("mobile-net", "mobile CNN: relu6, hard swish, squeeze", "vision.py:mobile_net", (_IMAGE,)),
    Model("u-net", "U-Net: resize, transposed convolution", "vision.py:u_net",
          (Input("scan=float32[batch,1,height=8..44,width=8..44]"),)),
    Model("super-resolution", "pixel shuffle, reflection, flip", "vision.py:super_resolution",
          (Input("image=float32[batch,3,height=5..24,width=5..24]", draw=uniform(0.0, 1.0)),)),
    Model("detector", "detection head: top-k, argmax, gather", "vision.py:detector",
          (Input("image=float32[batch,3,height=16..48,width=16..48]"),)),
    Model("encoder", "transformer encoder with mask and positions", "language.py:encoder",
          (Input("ids=int64[batch,seq=1..64]", (0, 299)), Input("mask=int64[batch,seq=1..64]", (0, 1), mask=True))),
    Model("decoder", "causal transformer decoder", "language.py:decoder",
          (Input("tokens=int64[batch,seq=1..48]", (0, 99)),)),
    Model("lstm", "bidirectional LSTM", "language.py:bidirectional_lstm", (_FRAMES,)),
    Model("gru", "GRU with a learned first state", "language.py:gru_net", (_FRAMES,)),
    Model("recommender", "embeddings and a cosine", "language.py:recommender",
          (Input("user=int64[batch]", (0, 199)), Input("item=int64[batch]", (0, 99)),
           Input("price=float32[batch]", draw=uniform(0.0, 80.0)))),
    Model("calendar", "integer arithmetic and tables", "language.py:calendar",
          (Input("stamp=int64[batch]", (0, 4_102_444_800)), Input("offset=int64[batch]", (-720, 840)))),
    Model("table-net", "MLP on unscaled columns", "tabular.py:table_net",
          (Input("columns=float32[batch,8]", draw=_columns()),), with_labels=True),
    Model("norm-net", "layer, group and instance norm, unit vectors", "tabular.py:norm_net",
          (Input("image=float32[batch,3,6,7]"),)),
    Model("spectrum-net", "spectrum of a wave, convolutions in time", "tabular.py:spectrum_net",
          (Input("wave=float32[batch,samples=256..1024]", draw=normal(0.0, 0.3)),)),
    Model("vae", "VAE: exp, softplus, divergence", "tabular.py:vae", (Input("x=float32[batch,16]"),)),
    Model("classifier", "softmax, log softmax, log sigmoid", "tabular.py:classifier",
          (Input("features=float32[batch,12]"),)),
    Model("gauges", "floor, round, relu, erf, where", "tabular.py:gauges",
          (Input("values=float32[batch,6]", draw=normal(0.0, 1.2)),)),
)  # fmt: skip


@cache
def by_name() -> dict[str, Model]:
    """Return the models by their names."""
    return {model.name: model for model in MODELS}


def labelled_samples(model: Model, answers: Sequence[Array]) -> dict[str, Array]:
    """Return what a user's .npz file holds: samples, and labels that the model mostly agrees with."""
    rng = np.random.default_rng(3)
    feeds = labelled_feeds(model)
    classes = answers[0].shape[-1]
    labels = np.where(
        rng.random(len(answers[0])) < 0.9, answers[0].argmax(-1), rng.integers(0, classes, len(answers[0]))
    )
    return {**feeds, "labels": labels.astype(np.int64)}


def labelled_feeds(model: Model) -> dict[str, Array]:
    """Return the samples of a user's file."""
    rng = np.random.default_rng(4)
    return {one_input.name: one_input.sample(rng, {"batch": 200}) for one_input in model.inputs}
