"""The mutants: a kind of mistake in one model, in the formats that it is made in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import edits_drift as drift
import edits_gross as gross
import edits_module as of_module
import edits_values as values
import torch
from declared_mutants import DECLARED
from edits_module import ModuleEdit
from onnx_edit import GraphEdit
from torch import nn

_weight, _attribute = of_module.weight_changed, of_module.attribute_set

Edit: TypeAlias = Callable[[GraphEdit], None]
ONNX, SAVED_MODEL, TFLITE, TORCHSCRIPT = "onnx", "saved-model", "tflite", "torchscript"
CONV, LINEAR, EMBEDDING = "aten::_convolution", "aten::linear", "aten::embedding"
_TF = (ONNX, SAVED_MODEL, TFLITE)


@dataclass(frozen=True)
class Mutant:
    """A mistake in a model: an edit of its ONNX file, or of its module before a TorchScript or ONNX file is made."""

    kind: str
    model: str
    edit: Edit | None = None
    formats: tuple[str, ...] = (ONNX,)
    of_module: ModuleEdit | None = None
    variant: str = ""  # of several edits of one kind in one model

    def name(self, form: str) -> str:
        """The name of the artifact in one format."""
        step = self.edit.__name__ if self.edit else self.variant.replace(" ", "-") or "module"
        return f"{self.kind}/{self.model}/{form}/{step}"


def _script(kind: str, model: str, edit: ModuleEdit) -> Mutant:
    return Mutant(kind, model, None, (TORCHSCRIPT,), edit)


GRAPH_MUTANTS = (
    Mutant("padding-mirrored", "batch-norm-net", gross.pads_mirrored, _TF),
    Mutant("softmax-axis", "u-net", gross.softmax_axis_last, _TF),
    Mutant("softmax-flattened", "u-net", gross.softmax_flattened),
    Mutant("norm-statistics-stale", "batch-norm-net", gross.norm_statistics_stale, _TF),
    Mutant("norm-fold-bias", "batch-norm-net", gross.norm_folded_without_bias_scale),
    Mutant("lstm-gate-order", "lstm", gross.lstm_gates_in_torch_order, _TF),
    Mutant("lstm-backward-order", "lstm", gross.lstm_backward_not_reversed),
    Mutant("gru-reset", "gru", gross.gru_resets_before, _TF),
    Mutant("operands-swapped", "super-resolution", gross.operands_swapped),
    Mutant("operands-swapped", "recommender", gross.operands_swapped, _TF),
    Mutant("bias-lost", "residual-net", gross.bias_lost),
    Mutant("nhwc-flatten", "residual-net", gross.nhwc_flattened, _TF),
    Mutant("transposed-square", "residual-net", gross.square_matrix_transposed),
    Mutant("batch-baked", "residual-net", gross.batch_baked),
    Mutant("length-baked", "encoder", gross.length_baked),
    Mutant("dilation-ignored", "residual-net", gross.dilation_ignored),
    Mutant("groups-exchanged", "residual-net", gross.groups_exchanged),
    Mutant("shuffle-order", "super-resolution", gross.shuffle_by_depth, _TF),
    Mutant("reflection-as-zeros", "super-resolution", gross.reflection_as_zeros),
    Mutant("flip-lost", "super-resolution", gross.flip_lost),
    Mutant("resize-coordinates", "u-net", gross.resize_asymmetric, _TF),
    Mutant("resize-coordinates", "u-net", gross.resize_align_corners),
    Mutant("transposed-conv-shift", "u-net", gross.transposed_conv_shifted),
    Mutant("leaky-slope", "batch-norm-net", gross.leaky_slope_default),
    Mutant("softplus-beta", "vae", gross.softplus_beta_ignored),
    Mutant("hard-sigmoid-slope", "mobile-net", gross.hard_sigmoid_default, _TF),
    Mutant("causal-mask-shifted", "decoder", gross.causal_mask_shifted, _TF),
    Mutant("rank-order", "detector", gross.ranks_exchanged),
    Mutant("padding-counted", "batch-norm-net", gross.mean_over_padding),
    Mutant("group-norm-groups", "norm-net", drift.normalised_by_one_group),
    Mutant("class-offset", "detector", gross.class_one_less),
    Mutant("class-offset", "table-net", gross.class_one_less, _TF),
    # small drift
    Mutant("batch-norm-epsilon", "batch-norm-net", drift.batch_norm_epsilon, _TF),
    Mutant("layer-norm-epsilon", "encoder", drift.layer_norm_epsilon, _TF),
    Mutant("layer-norm-epsilon", "decoder", drift.layer_norm_epsilon_of_one),
    Mutant("instance-norm-epsilon", "norm-net", drift.instance_norm_epsilon),
    Mutant("gelu-tanh", "encoder", drift.gelu_by_tanh, _TF),
    Mutant("gelu-tanh", "classifier", drift.gelu_by_tanh),
    Mutant("gelu-sigmoid", "decoder", drift.gelu_by_sigmoid),
    Mutant("half-inside", "encoder", drift.half_inside),
    Mutant("half-inside", "residual-net", drift.half_inside_conv),
    Mutant("half-weights", "u-net", drift.half_weights),
    Mutant("half-weights", "table-net", drift.half_weights, _TF),
    Mutant("bfloat-weights", "vae", drift.brain_weights),
    Mutant("tf32", "decoder", drift.tf32_products),
    Mutant("fast-exp", "encoder", drift.softmax_by_fast_exp),
    Mutant("mask-leaks", "encoder", drift.mask_leaks, _TF),
    Mutant("scale-rounded", "spectrum-net", drift.scaled_by_a_little),
    Mutant("scale-rounded", "mobile-net", drift.scaled_by_a_little, _TF),
    Mutant("one-sign", "residual-net", drift.one_sign),
    Mutant("one-sign", "spectrum-net", drift.one_sign),
    Mutant("variance-biased", "norm-net", drift.variance_biased),
    Mutant("erf-approximate", "gauges", values.erf_cut),
    # some sizes, batches or ids
    Mutant("positions-clipped", "encoder", values.positions_clipped, _TF),
    Mutant("large-batch-state", "gru", values.state_kept_beyond),
    Mutant("large-batch-state", "gru", values.state_kept_beyond_two),
    Mutant("last-row-clipped", "encoder", values.last_row_clipped),
    Mutant("last-row-clipped", "recommender", values.last_user_zero, _TF),
    Mutant("ceil-mode", "batch-norm-net", values.ceil_mode_lost),
    Mutant("nearest-rounding", "u-net", values.nearest_rounds_up, _TF),
    Mutant("division-truncates", "calendar", values.division_truncates, _TF),
    Mutant("remainder-sign", "calendar", values.remainder_of_dividend),
    # narrowed dtype
    Mutant("int32", "calendar", values.narrowed_to_32_bits, _TF),
    Mutant("ids-as-floats", "calendar", values.ids_through_floats),
    Mutant("product-overflows", "calendar", values.product_overflows),
    # rare values
    Mutant("clip-limit", "mobile-net", values.clip_at_ten, _TF),
    Mutant("clip-argument-lost", "mobile-net", values.clip_upper_lost),
    Mutant("clip-argument-lost", "super-resolution", values.clip_upper_lost),
    Mutant("relu-nan", "mobile-net", values.nan_swallowed_by_relu),
    Mutant("relu-nan", "residual-net", values.nan_swallowed_by_relu),
    Mutant("clip-nan", "super-resolution", values.nan_clipped),
    Mutant("round-half-up", "gauges", values.rounded_half_up, _TF),
    Mutant("select-by-product", "gauges", values.select_by_product),
    Mutant("epsilon-lost", "spectrum-net", values.epsilon_lost, _TF),
    Mutant("softplus-overflow", "classifier", values.softplus_overflows),
    Mutant("softmax-overflow", "classifier", values.softmax_without_max, _TF),
    Mutant("log-softmax", "classifier", values.log_softmax_of_softmax),
    Mutant("log-sigmoid", "classifier", values.log_sigmoid_of_sigmoid),
    # ties and rare classes
    Mutant("last-of-ties", "table-net", values.last_index_of_ties),
    Mutant("last-class-cut", "detector", values.last_class_cut),
)

MODULE_MUTANTS = (
    _script("softmax-axis", "encoder", _attribute("blocks.0.attention.weigh", "dim", -2, "aten::softmax")),
    _script("bias-lost", "residual-net", _weight("conv1", torch.zeros_like, CONV, "bias")),
    _script("dilation-ignored", "residual-net",
            of_module.replaced("conv2", nn.Conv2d(8, 8, 3, padding=1), CONV)),
    _script("leaky-slope", "batch-norm-net", _attribute("act", "negative_slope", 0.01, "aten::leaky_relu")),
    _script("padding-counted", "batch-norm-net",
            _attribute("mean_pool", "count_include_pad", value=True, op_type="aten::avg_pool2d")),
    _script("group-norm-groups", "norm-net", of_module.replaced("group", nn.GroupNorm(8, 8), "aten::group_norm")),
    _script("softplus-beta", "vae", _attribute("softplus", "beta", 1.0, "aten::softplus")),
    _script("norm-statistics-stale", "batch-norm-net",
            _weight("norm1", torch.zeros_like, "aten::batch_norm", "running_mean")),
    _script("lstm-gate-order", "lstm", of_module.transposed_gates("lstm", (0, 1, 3, 2))),
    _script("transposed-square", "residual-net", _weight("square", lambda weights: weights.T, LINEAR)),
    _script("batch-norm-epsilon", "batch-norm-net", _attribute("norm2", "eps", 1e-3, "aten::batch_norm")),
    _script("layer-norm-epsilon", "encoder", _attribute("blocks.0.norm1", "eps", 1e-5, "aten::layer_norm")),
    _script("gelu-tanh", "decoder", _attribute("blocks.0.act", "approximate", "tanh", "aten::gelu")),
    _script("bfloat-weights", "table-net",
            _weight("middle", lambda weights: weights.bfloat16().float(), LINEAR)),
    _script("half-weights", "mobile-net", _weight("point", lambda weights: weights.half().float(), CONV)),
    _script("scale-rounded", "lstm", _weight("head", lambda weights: weights * 1.0001, LINEAR)),
    _script("one-sign", "u-net", _weight("mix2", of_module.one_sign, CONV)),
    _script("positions-clipped", "encoder", _weight("positions", of_module.rows_clipped(32), EMBEDDING)),
    _script("last-row-clipped", "recommender", _weight("items", of_module.rows_clipped(99), EMBEDDING)),
    _script("ceil-mode", "batch-norm-net",
            _attribute("max_pool", "ceil_mode", value=False, op_type="aten::max_pool2d")),
    _script("clip-limit", "mobile-net", _attribute("relu6", "max_val", 10.0, "aten::hardtanh")),
)  # fmt: skip
DECLARED_MUTANTS = tuple(
    Mutant(kind, model, None, (*_TF, TORCHSCRIPT), of_module, variant)
    for kind, models in DECLARED.items()
    for model, variants in models.items()
    for variant, of_module in variants.items()
)
MUTANTS = (*GRAPH_MUTANTS, *MODULE_MUTANTS, *DECLARED_MUTANTS)
