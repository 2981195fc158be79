"""Fourier transforms: DFT and STFT."""

from __future__ import annotations

from ....onnx_graph.semantics.axis_lists import transformed_axis
from ...values import Expression
from ...writers import INDICES, CodegenContext, OutputCode, writes

_TRANSFORMED = frozenset({"float32", "float64"})  # of which PyTorch has Fourier transforms on every machine


@writes("DFT", since=17, T1=_TRANSFORMED, T2=INDICES)
def transform(op: CodegenContext) -> OutputCode:
    """Write DFT: along an axis, cut or filled with zeros to a length; forward or inverse, whole or half a spectrum."""
    signal, back, half, axis = op.value(0), op.flag("inverse"), op.flag("onesided"), transformed_axis(op)
    if signal.shape[-1] not in (1, 2):
        op.refuse(f"it transforms the axis {axis} of {signal.rank}, of which the last is to have the parts, 1 or 2")
    is_complex = signal.shape[-1] == 2
    if half and is_complex is not back:
        op.refuse("half of a spectrum is made of real numbers and gives real ones", fix="set onesided to 0")
    length = op.sizes(1, "length")[0] if op.has_input(1) else None
    numbers = f"torch.view_as_complex({signal}.contiguous())" if is_complex else f"{signal}.squeeze(-1)"
    function = f"torch.fft.{'i' if back else ''}{'r' if half else ''}fft"
    spectrum = f"{function}({numbers}, {length}, {axis})"
    if back and half:
        return f"{spectrum}.unsqueeze(-1)"
    return f"torch.view_as_real({spectrum}{'' if is_complex or not back else '.resolve_conj()'})"


@writes("STFT", since=17, T1=_TRANSFORMED, T2=INDICES)
def short_transforms(op: CodegenContext) -> OutputCode:
    """Write STFT: (batch, frames, bins, 2) of a signal (batch, length, 1 or 2), by a window."""
    signal, window, half = op.value(0), op.optional(2), op.flag("onesided", True)
    (step,) = op.integers(1, "frame_step")
    if signal.rank != 3 or signal.shape[2] not in (1, 2):
        op.refuse(f"its signal has the shape {signal.shape}", fix="give it the shape (batch, length, 1 or 2)")
    if signal.shape[2] == 2 and half:
        op.refuse("half of the transform of a complex signal does not tell the other", fix="set onesided to 0")
    numbers = f"{signal}[:, :, 0]" if signal.shape[2] == 1 else f"torch.view_as_complex({signal}.contiguous())"
    pieces = f"{numbers}.unfold(1, {_frame_length(op, signal, window)}, {step})"
    windowed = pieces if window is None else f"({pieces} * {window})"
    return f"torch.view_as_real(torch.fft.{'rfft' if half else 'fft'}({windowed}))"


def _frame_length(op: CodegenContext, signal: Expression, window: Expression | None) -> int:
    """Return the frame length: as given, or that of the window, or that of the signal."""
    said = op.integers(3, "frame_length")[0] if op.optional(3) is not None else None
    wide = signal.shape[1] if window is None else window.shape[0]
    if window is not None and None not in (said, wide) and said != wide:
        op.refuse(f"its window has {wide} elements and its frames {said}", fix="make the window as long as a frame")
    length = wide if said is None else said
    if length is None:
        op.refuse("the length of its frames is known only when the module runs", fix="give it a frame_length")
    return length
