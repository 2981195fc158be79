"""How an artifact is called in its runtime: Python that runs in the artifact's folder, with its requirements alone."""

from __future__ import annotations

from ....models.formats import Format
from ....models.signature import Signature, TensorSpec, ValueRange

_LINE = 100  # letters; inputs that need more have a line each


def snippet(form: Format, signature: Signature, *, flex: bool = False, named: bool = True) -> str:
    """Return the program that calls an artifact with made-up inputs, and has its answers in `outputs`.
    `named`: its file has a signature by which inputs and outputs are named, as all files that transload writes."""
    chosen = form.spec.snippet(flex=flex, named=named)
    return chosen.text.format(
        inputs=_arrays(signature, chosen.array),
        file=repr(form.spec.payload),
        names=[spec.name for spec in signature.outputs],
        answers=chosen.call if len(signature.outputs) > 1 else f"[{chosen.call}]",
    )


def _arrays(signature: Signature, form: str) -> str:
    """Return a dict of the inputs, each an array of the least size and value that the signature allows."""
    sizes = {axis: _least_size(signature, axis) for spec in signature.inputs for axis in spec.dynamic_axes.values()}
    parts = []
    for spec in signature.inputs:
        shape = spec.sized(sizes)
        parts.append(f"{spec.name!r}: {form.format(shape=shape, value=_value(spec), dtype=spec.dtype)}")
    line = f"{{{', '.join(parts)}}}"
    return line if len(line) <= _LINE else "{\n" + "".join(f"    {part},\n" for part in parts) + "}"


def _least_size(signature: Signature, axis: str) -> int:
    """Return 1 where that is allowed, else the least size that is."""
    bounds = signature.bounds.get(axis)
    return 1 if bounds is None else bounds.filled.at_least(1)


def _value(spec: TensorSpec) -> str:
    """Return a number that the input may hold, as Python writes it."""
    if spec.dtype == "bool":
        return "True"
    low = spec.values.low if isinstance(spec.values, ValueRange) else 1 if spec.values else 0
    return repr(float(low) if spec.dtype.startswith(("float", "bfloat")) else int(low))
