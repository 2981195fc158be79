"""Normalisations."""

from __future__ import annotations

from ...values import Expression, SizeTerm, as_tuple
from ...writers import FLOATS, CodegenContext, OutputCode, write_as, writes


@writes("BatchNormalization", since=7, T=FLOATS, T1=FLOATS, T2=FLOATS)
def batch(op: CodegenContext) -> OutputCode:
    """Write BatchNormalization by learned means and variances."""
    x, scale, bias, mean, variance = (op.value(at) for at in range(5))
    if op.flag("training_mode") or op.wants(1):
        op.refuse("it is in training mode", fix="export the model in evaluation mode: model.eval()")
    op.ignore("momentum", because="nothing is learned here")
    epsilon = op.literal("epsilon")
    if op.version < 9 and not op.flag("spatial", True):  # a mean for each place
        return f"({x} - {mean}) * torch.rsqrt({variance} + {epsilon}) * {scale} + {bias}"
    op.writer.statistics.update(f"{part}".removeprefix("self.") for part in (mean, variance))
    if len({part.dtype for part in (x, scale, bias, mean, variance)}) > 1:
        wide = ", ".join(f"{part}.to(torch.{x.dtype})" for part in (mean, variance, scale, bias))
        return f"F.batch_norm({x}, {wide}, eps={epsilon})"
    return f"F.batch_norm({x}, {mean}, {variance}, {scale}, {bias}, eps={epsilon})"


@writes("InstanceNormalization", since=6, T=FLOATS)
def instance(op: CodegenContext) -> OutputCode:
    """Write InstanceNormalization."""
    x, scale, bias = (op.value(at) for at in range(3))
    return f"F.instance_norm({x}, weight={scale}, bias={bias}, eps={op.literal('epsilon')})"


@writes("GroupNormalization", since=18, T=FLOATS)
def group(op: CodegenContext) -> OutputCode:
    """Write GroupNormalization; before opset 21 there was one scale for each group."""
    x, scale, bias = (op.value(at) for at in range(3))
    op.ignore("stash_type", because="PyTorch computes the mean and the variance in float32 or wider")
    groups, channels, epsilon = op.integer("num_groups"), x.shape[1], op.literal("epsilon")
    if op.version >= 21:
        return f"F.group_norm({x}, {groups}, {scale}, {bias}, {epsilon})"
    if channels is None:
        op.refuse("the number of its channels is not known", fix="give the channels a fixed size")
    wide = [f"{part}.repeat_interleave({channels // groups})" for part in (scale, bias)]
    return f"F.group_norm({x}, {groups}, {', '.join(wide)}, {epsilon})"


@writes("LayerNormalization", since=17, T=FLOATS)
def layer(op: CodegenContext) -> OutputCode:
    """Write LayerNormalization of the axes from `axis` on."""
    x, scale, bias = op.value(0), op.value(1), op.optional(2)
    axis, epsilon = op.axis("axis", -1, rank=x.rank), op.literal("epsilon")
    _stash(op)
    shape = x.sizes()[axis:]
    if op.wants(1) or op.wants(2):
        return op.unpack(f"layer_norm_with_statistics({x}, {axis}, {scale}, {bias}, {epsilon})", 3)
    if _fits(scale, shape) and (bias is None or _fits(bias, shape)):
        last = f"{scale}" if bias is None else f"{scale}, {bias}"
        return f"F.layer_norm({x}, {as_tuple(shape)}, {last}, eps={epsilon})"
    code = f"F.layer_norm({x}, {as_tuple(shape)}, eps={epsilon}) * {scale}"
    return code if bias is None else f"{code} + {bias}"


def _stash(op: CodegenContext) -> None:
    if op.integer("stash_type", 1) != 1:
        op.refuse("its stash_type is not float32", fix="leave stash_type out")


def _fits(weight: Expression, shape: list[SizeTerm]) -> bool:
    return list(weight.shape) == shape


@writes("RMSNormalization", since=23, T=FLOATS, V=FLOATS)
def root_mean_square(op: CodegenContext) -> OutputCode:
    """Write RMSNormalization of the axes from `axis` on."""
    x, scale = op.value(0), op.value(1)
    axis, epsilon = op.axis("axis", -1, rank=x.rank), op.literal("epsilon")
    _stash(op)
    shape = x.sizes()[axis:]
    if x.dtype == scale.dtype and x.dtype in ("float32", "float64") and _fits(scale, shape):
        return f"F.rms_norm({x}, {as_tuple(shape)}, {scale}, {epsilon})"
    return f"root_mean_square({x}, {axis}, {scale}, {epsilon})"


@writes("LpNormalization", since=1, T=FLOATS)
def by_norm(op: CodegenContext) -> OutputCode:
    """Write LpNormalization: x over its 1-norm or 2-norm along an axis; where the norm is 0 the answer is 0."""
    x = op.value(0)
    axis, p = op.axis("axis", -1, rank=x.rank), op.integer("p", 2)
    return f"by_norm({x}, {axis}, {p})"


write_as("LRN", "local_response({0}, {size}, {alpha}, {beta}, {bias})", since=1, T=FLOATS)


@writes("Dropout", since=7, T=FLOATS, T1=FLOATS)
def dropout(op: CodegenContext) -> OutputCode:
    """Write Dropout: x itself, and a mask that is all true."""
    x = op.value(0)
    if op.has_input(2):
        training = op.value(2)
        if training.array is None or bool(training.array.reshape(())):
            op.refuse("it is in training mode", fix="export the model in evaluation mode: model.eval()")
    op.ignore("ratio", "seed", because="nothing is dropped")
    op.ignore_input(1, because="nothing is dropped")
    return [x, f"torch.ones_like({x}, dtype=torch.bool)" if op.wants(1) else None]
