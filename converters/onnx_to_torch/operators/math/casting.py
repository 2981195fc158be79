"""Casts from one dtype into another."""

from __future__ import annotations

from ...writers import HELD, INTEGERS, CodegenContext, OutputCode, writes

_LARGEST = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0}
_WIDE = frozenset({"uint16", "uint32", "uint64"})


@writes("Cast", since=6, until=28, T1=HELD, T=HELD)
@writes("CastLike", since=15, T1=HELD, T2=HELD)
def cast(op: CodegenContext) -> OutputCode:
    """Write Cast, or CastLike: into the dtype of another value."""
    value, dtype = op.value(0), op.dtype("to") if op.op_type == "Cast" else op.value(1).dtype
    if dtype not in HELD:
        op.refuse(f"it casts to {dtype}, which PyTorch does not compute in", fix="cast to another dtype in the model")
    saturate = op.flag("saturate", True)
    if op.has("round_mode"):
        op.ignore("round_mode", because="it speaks of float8_e8m0 alone, which is refused above")
    if value.dtype == dtype:
        return value
    if dtype in _LARGEST:
        if not saturate:
            op.refuse(f"it casts to {dtype} without saturation, which PyTorch rounds in its own way", fix="saturate")
        return f"torch.clamp({value}.float(), -{_LARGEST[dtype]}, {_LARGEST[dtype]}).to(torch.{dtype})"
    if dtype in _WIDE and value.dtype not in INTEGERS:
        return f"{value}.to(torch.int64).to(torch.{dtype})"
    return f"{value}.to(torch.{dtype})"
