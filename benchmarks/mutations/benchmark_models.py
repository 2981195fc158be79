"""The benchmark's models: where each is made, its family, its declared inputs, and data where it has some."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from declarations import (
    Array,
    Call,
    Draw,
    Input,
    declared_calls,
    middle_sizes,
    normal,
    random_calls,
    stress_calls,
    uniform,
)  # fmt: skip

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
    columns: int | None = None  # the axis of its outputs along which sizes are unlike
    unjudged: str = ""  # "nan" or "integers": where nothing says what is right, as for places of ties

    @property
    def argument(self) -> str:
        """The MODEL argument of transload."""
        return str(NETS / self.ref)

    @property
    def imputes(self) -> bool:
        """Whether a finite answer is owed to NaN."""
        return any(one_input.imputed for one_input in self.inputs)

    @property
    def has_data(self) -> bool:
        """Whether its user gives samples with --data, whose values are not all that is declared."""
        return any(one_input.data for one_input in self.inputs)

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
_OPEN = Input("frames=float32[batch,time=1..,6]")
_MASKED = Input("frames=float32[batch,time=1..64,6]")
_MASK = Input("mask=int64[batch,time=1..64]", (0, 1), mask=True)
_SIX = Input("x=float32[batch,6]")
_GAPS = Input("x=float32[batch,6]", imputed=True)


def _within(one_input: Input, values: tuple[int, int], data: tuple[int, int]) -> Input:
    """Return an input of which a user's samples hold some of the declared values."""
    return replace(one_input, values=values, data=data)


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

# Models of what a declaration allows and samples rarely hold; their mutants are in declared_mutants.py.
DECLARED_MODELS = (
    Model("money-risk", "money beside a probability", "columns.py:MoneyRisk",
          (Input("x=float32[batch,8]"),), columns=-1),
    Model("ledger", "sixteen columns of unlike size", "columns.py:Ledger", (Input("x=float32[batch,8]"),), columns=-1),
    Model("forecast", "unlike columns for each day", "columns.py:Forecast",
          (Input("days=float32[batch,time=1..30,6]"),), columns=-1),
    Model("thermal", "unlike channels of an image", "columns.py:Thermal",
          (Input("image=float32[batch,3,height=8..32,width=8..32]"),), columns=1),
    Model("boxes", "boxes in pixels beside scores", "columns.py:Boxes", (Input("image=float32[batch,3,16,16]"),),
          columns=-1),
    Model("moments", "a sum beside a deviation", "columns.py:Moments",
          (Input("wave=float32[batch,samples=8..64]"),), columns=-1),
    Model("mean-imputer", "imputation by means", "columns.py:MeanImputer", (_GAPS,)),
    Model("median-imputer", "imputation with indicators", "columns.py:MedianImputer", (_GAPS,)),
    Model("number-imputer", "imputation by nan_to_num", "columns.py:NumberImputer", (_GAPS,)),
    Model("nan-mean", "a mean of what is known", "columns.py:NanMean",
          (Input("days=float32[batch,time=2..30,6]", imputed=True),)),
    Model("dead-pixels", "pixels from their neighbours", "columns.py:DeadPixels",
          (Input("image=float32[batch,3,height=6..24,width=6..24]", imputed=True),)),
    Model("branches", "decisions that send NaN to a side", "columns.py:Branches", (_GAPS,)),
    Model("masked-mean", "a mean with a mask", "masked.py:MaskedMean", (_MASKED, _MASK)),
    Model("masked-max", "a maximum with a boolean mask", "masked.py:MaskedMax",
          (_MASKED, replace(_MASK, text="mask=bool[batch,time=1..64]"))),
    Model("masked-pooling", "attention pooling with a mask", "masked.py:MaskedPooling", (_MASKED, _MASK)),
    Model("masked-positions", "attention with counted positions", "masked.py:MaskedPositions",
          (Input("ids=int64[batch,seq=1..64]", (0, 119)),
           Input("mask=int64[batch,seq=1..64]", (0, 1), mask=True))),
    Model("masked-last", "a forgetting mean with a mask", "masked.py:MaskedLast", (_MASKED, _MASK)),
    Model("masked-tags", "tags for each frame with a mask", "masked.py:MaskedTags", (_MASKED, _MASK)),
    Model("recommender-data", "embeddings with data", "language.py:recommender",
          (Input("user=int64[batch]", (0, 199), data=(0, 29)), Input("item=int64[batch]", (0, 99), data=(0, 29)),
           Input("price=float32[batch]", (0, 80), data=(0, 9)))),
    Model("decoder-data", "decoder with data", "language.py:decoder",
          (Input("tokens=int64[batch,seq=1..48]", (0, 99), data=(0, 29)),)),
    Model("lstm-data", "LSTM with data", "language.py:bidirectional_lstm", (_within(_FRAMES, (-10, 10), (-1, 1)),)),
    Model("money-data", "money and a probability with data", "columns.py:MoneyRisk",
          (_within(Input("x=float32[batch,8]"), (-10, 10), (-1, 1)),), columns=-1),
    Model("tiers-data", "a table with data", "limits.py:Tiers", (Input("code=int64[batch]", (0, 999), data=(0, 99)),)),
    Model("batch-norm-data", "CNN with data", "vision.py:batch_norm_net", (_within(_IMAGE, (0, 255), (0, 20)),)),
    Model("lstm-open", "LSTM of any length", "language.py:bidirectional_lstm", (_OPEN,)),
    Model("gru-open", "GRU of any length", "language.py:gru_net", (_OPEN,)),
    Model("masked-open", "masked tags of any length", "masked.py:MaskedTags",
          (_OPEN, Input("mask=int64[batch,time=1..]", (0, 1), mask=True))),
    Model("attention-open", "attention of any length", "limits.py:OpenAttention", (_OPEN,)),
    Model("convolution-open", "convolutions of any length", "limits.py:OpenConvolution", (_OPEN,)),
    Model("positions-open", "sines of positions, any length", "limits.py:OpenPositions", (_OPEN,)),
    Model("clipped", "limits that are rarely reached", "limits.py:Clipped", (_SIX,)),
    Model("alarm", "thresholds beside a net", "limits.py:Alarm", (_SIX,)),
    Model("tiers", "a table of a thousand rows", "limits.py:Tiers", (Input("code=int64[batch]", (0, 999)),)),
    Model("tails", "activations far out", "limits.py:Tails", (_SIX,)),
    Model("standardised", "rows of tiny variance", "limits.py:Standardised", (_SIX,)),
    Model("mixed-columns", "copied, constant and padded columns", "columns.py:MixedColumns", (_SIX,), columns=-1),
    Model("ill-conditioned", "a layer norm of rows that hardly vary", "limits.py:Standardised",
          (Input("x=float32[batch,6]", draw=normal(100.0, 1e-3)),)),
    Model("top-of-relu", "places of ties", "limits.py:TopOfRelu", (_SIX,), unjudged="integers"),
    Model("fake-quantised", "steps of an int8 training", "limits.py:FakeQuantised", (_SIX,), unjudged="nan"),
    Model("saturating", "thresholds on hidden values", "limits.py:Saturating", (_SIX,)),
)  # fmt: skip
# Models of values that float16 cannot hold; their copies are in file_mutants.py.
_SIXTEEN = Input("x=float32[batch,16]")
HALF_MODELS = (
    Model("residual-stream", "a residual stream beyond 65,504", "halves.py:ResidualStream", (_SIXTEEN,)),
    Model("unit-vectors", "squares beyond 65,504", "halves.py:UnitVectors", (_SIXTEEN,)),
    Model("hand-variance", "a difference of large means", "halves.py:HandVariance", (_SIXTEEN,)),
    Model("long-mean", "a sum beyond 65,504", "halves.py:LongMean", (_SIXTEEN,)),
    Model("evidence", "exponentials beyond 65,504", "halves.py:Evidence", (_SIXTEEN,)),
    Model("large-scores", "scores of attention beyond 65,504", "halves.py:LargeScores", (_SIXTEEN,)),
)
ALL_MODELS = (*MODELS, *DECLARED_MODELS, *HALF_MODELS)


@cache
def by_name() -> dict[str, Model]:
    """Return the models by their names."""
    return {model.name: model for model in ALL_MODELS}


def labelled_samples(model: Model, answers: Sequence[Array]) -> dict[str, Array]:
    """Return what a user's .npz file holds: samples, and labels that the model mostly agrees with."""
    rng = np.random.default_rng(3)
    feeds = user_feeds(model)
    classes = answers[0].shape[-1]
    labels = np.where(
        rng.random(len(answers[0])) < 0.9, answers[0].argmax(-1), rng.integers(0, classes, len(answers[0]))
    )
    return {**feeds, "labels": labels.astype(np.int64)}


def user_feeds(model: Model) -> dict[str, Array]:
    """Return the samples of a user's file."""
    rng = np.random.default_rng(4)
    sizes = middle_sizes(model.inputs, 200)
    return {one_input.name: one_input.sample(rng, sizes) for one_input in model.inputs}
