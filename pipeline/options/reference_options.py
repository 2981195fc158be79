"""The options of the commands that hold candidates against a model: what is compared, with which model."""

from __future__ import annotations

from . import shared_options as shared
from .option import CommandOptions


class ReferenceOptions(CommandOptions):
    """The candidates of a command, and the model that they are held against, with its inputs, data and weights.

    A command says in words of its own what `candidates` and `against` are to it."""

    candidates: shared.Candidates
    against: shared.Model = None  # None: the model that the candidates' records name
    data: shared.Data = None
    inputs: shared.Inputs = ()
    weights: shared.Weights = None
    weights_key: shared.WeightsKey = None
    settings: shared.Settings = None
    python: shared.Python = None
    model_seconds: shared.ModelSeconds = None
    trust: shared.Trust = False
