"""The layers of a full-int8 TFLite file that stay in float32, chosen by what they win for their bytes.

A layer is an operator with weights. Its error is measured on calibration samples with this layer alone in int8, against
the float model. Errors of layers nearly add up, so these measurements tell what a layer wins; each choice is measured
again before it counts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...models.signature import Array
from ..lazy_import import tf, tflite
from ..to_saved_model.saved_model_from_onnx import SIGNATURE
from .flatbuffer import Subgraph, TfliteOperator, model_of, subgraphs

TARGET_DB = 40.0  # about one rounding of normal values to int8: no layer is kept in float beyond it
MIN_GAIN_DB = 1.0  # a layer that wins less stays in int8
MAX_FLOAT_SHARE = 0.5  # of the weights
MAX_FEEDS = 32  # each layer costs as many calls; these are the ones that int8 answers worst
_NO_ERROR = 1e-14  # of the outputs' energy: 140 dB, about the rounding of float32
_LEAST_LEFT = 0.01  # of the error that is expected to be left: measurements of single layers say no more than that
_WORST = 3  # layers that the summary names

Quantise = Callable[[Sequence[str]], bytes]  # leaves the operators with these outputs in float; returns the file


@dataclass(frozen=True, slots=True)
class Layer:
    """An operator with weights: the name of its output, its place in the model, and the number of its weights."""

    output: str
    place: str
    weights: int

    @property
    def label(self) -> str:
        """The node of the place, without module and source line."""
        return self.place.split(", ")[0]


@dataclass(frozen=True, slots=True)
class FloatLayers:
    """The layers that stay in float32, what they win over the int8 file, and what they add to its size.

    `errors`: by layer, the error of the outputs relative to their energy while it alone is in int8; the largest first.
    """

    kept: tuple[Layer, ...]
    errors: Mapping[Layer, float]
    before_db: float
    after_db: float
    added_bytes: int

    @property
    def summary(self) -> str:
        """A sentence on the kept layers and the most sensitive ones."""
        worst = [f"{layer.label} {decibels(error):.0f} dB" for layer, error in [*self.errors.items()][:_WORST]]
        names = ", ".join(layer.label for layer in self.kept)
        if self.kept:
            won_db, added_kb = self.after_db - self.before_db, self.added_bytes / 1000
            kept = f"{names}: +{won_db:.0f} dB for {added_kb:.3g} KB on calibration samples"
        elif self.before_db >= TARGET_DB:
            kept = f"no layer, int8 agrees to {self.before_db:.0f} dB on calibration samples"
        else:
            kept = f"no layer, none wins {MIN_GAIN_DB:.0f} dB within half of the weights"
        sensitive = f"; most sensitive, alone in int8: {', '.join(worst)}" if worst else ""
        return f"kept in float32: {kept}{sensitive}"

    @property
    def table(self) -> str:
        """A line for each layer, the most sensitive first."""
        rows = [
            f"{decibels(error):8.1f}  {layer.weights:10}  {dtype:7}  {layer.place}"
            for layer, error in self.errors.items()
            for dtype in ["float32" if layer in self.kept else "int8"]
        ]
        return "\n".join(["dB alone  int8 bytes  kept in  layer", *rows])


def decibels(error: float) -> float:
    """Return a relative error as a signal-to-noise ratio."""
    return -10 * math.log10(max(error, _NO_ERROR))


def choose_float_layers(
    calibrated: bytes,
    quantise: Quantise,
    feeds: Sequence[Mapping[str, Array]],
    ruined: Collection[str],
    origins: Mapping[str, str],
) -> FloatLayers:
    """Choose layers until the file agrees to TARGET_DB, or no other layer wins MIN_GAIN_DB within MAX_FLOAT_SHARE.

    Measured on the MAX_FEEDS feeds that int8 answers worst, which are those beyond the calibrated ranges if there are
    any. The layer that wins most for its bytes comes first. Operators with `ruined` outputs are in float anyway;
    `origins` has the place of a TensorFlow operator in the model.
    """
    layers = list(_layers(calibrated, ruined, origins))
    outputs = _operator_outputs(calibrated)
    flat = quantise([])
    parts = _relative_errors(_answers(calibrated, feeds), _answers(flat, feeds))
    feeds = [feeds[at] for at in sorted(np.argsort(-parts, kind="stable")[:MAX_FEEDS])]
    exact = list(_answers(calibrated, feeds))

    def error_of(flat: bytes) -> float:
        return float(_relative_errors(exact, _answers(flat, feeds)).sum())

    alone = {layer: error_of(quantise([name for name in outputs if name != layer.output])) for layer in layers}
    errors = dict(sorted(alone.items(), key=lambda row: -row[1]))
    before, size = error_of(flat), len(flat)
    error, kept = before, list[Layer]()
    budget = MAX_FLOAT_SHARE * sum(layer.weights for layer in layers)
    while decibels(error) < TARGET_DB:
        gains = {layer: _expected_gain(error, errors[layer]) for layer in layers if layer.weights <= budget}
        eligible = [layer for layer, gain in gains.items() if gain >= MIN_GAIN_DB]
        if not eligible:
            break
        layer = max(eligible, key=lambda layer: gains[layer] / layer.weights)
        layers.remove(layer)
        trial = quantise([*(row.output for row in kept), layer.output])
        trial_error = error_of(trial)
        if decibels(trial_error) - decibels(error) >= MIN_GAIN_DB:
            flat, error, budget = trial, trial_error, budget - layer.weights
            kept.append(layer)
    return FloatLayers(tuple(kept), errors, decibels(before), decibels(error), len(flat) - size)


def _expected_gain(error: float, part: float) -> float:
    """Return the gain in dB where this part of the error goes away."""
    return decibels(max(error - part, _LEAST_LEFT * error)) - decibels(error)


def _operator_outputs(calibrated: bytes) -> list[str]:
    return [
        graph.tables.Tensors(output).Name().decode()
        for graph in subgraphs(calibrated)
        for operator in graph.operators()
        for output in operator.outputs
    ]


def _layers(calibrated: bytes, ruined: Collection[str], origins: Mapping[str, str]) -> Iterator[Layer]:
    """Yield the layers of the main graph that int8 may take."""
    graph = next(subgraphs(calibrated))
    for operator in graph.operators():
        constants = [tensor for tensor in operator.inputs if tensor >= 0 and _is_weight(calibrated, graph, tensor)]
        output = graph.tables.Tensors(operator.outputs[0]).Name().decode()
        if constants and graph.is_calibrated(operator.outputs[0]) and output not in ruined:
            weights = sum(math.prod(graph.shape(tensor)) for tensor in constants)
            yield Layer(output, _place(graph, operator, origins), weights)


def _is_weight(calibrated: bytes, graph: Subgraph, tensor: int) -> bool:
    """Return whether a tensor is a float constant of two axes or more: a bias has one, and stays wide in int8 too."""
    table = graph.tables.Tensors(tensor)
    is_matrix = table.Type() == tflite.TensorType.FLOAT32 and table.ShapeLength() > 1
    return is_matrix and bool(model_of(calibrated).Buffers(table.Buffer()).DataLength())


def _place(graph: Subgraph, operator: TfliteOperator, origins: Mapping[str, str]) -> str:
    """Return the ONNX node of an operator, by the names of its weights and outputs; else its first output's name."""
    # The weights come first: an output is named after the activation that is fused into the operator.
    tensors = [*(tensor for tensor in operator.inputs[1:] if tensor >= 0), *operator.outputs]
    names = [name for tensor in tensors for name in graph.tables.Tensors(tensor).Name().decode().split(";")]
    output = graph.tables.Tensors(operator.outputs[0]).Name().decode()
    return next((origins[name] for name in names if name in origins), output)


def _answers(flat: bytes, feeds: Sequence[Mapping[str, Array]]) -> Iterator[dict[str, Array]]:
    interpreter = tf.lite.Interpreter(
        model_content=flat,
        experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    runner = interpreter.get_signature_runner(SIGNATURE)
    return (dict(runner(**feed)) for feed in feeds)


def _relative_errors(exact: Iterable[Mapping[str, Array]], answers: Iterable[Mapping[str, Array]]) -> Array:
    """Return the energy of the error by sample, relative to the energy of all samples, summed over float outputs."""
    noise, energy, count = defaultdict[str, list[float]](list), defaultdict[str, float](float), 0
    for wanted, values in zip(exact, answers, strict=True):
        count += 1
        for name, array in wanted.items():
            if array.dtype.kind == "f":
                # Numbers that are not finite in the model say nothing of precision.
                finite = np.isfinite(array)
                signal = array[finite].astype(np.float64)
                difference = np.nan_to_num(values[name][finite]) - signal
                noise[name].append(float(np.square(difference).sum()))
                energy[name] += float(np.square(signal).sum())
    return sum((np.array(row) / max(energy[name], _NO_ERROR) for name, row in noise.items()), np.zeros(count))
