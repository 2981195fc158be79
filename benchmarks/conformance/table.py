"""The committed table: docs/evidence/conformance.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from backends import BACKENDS
from cases import cases, in_view_b

Found = Mapping[str, Mapping[str, list[str]]]

_HEAD = """# Conformance: the ONNX backend node tests

Made by `make conformance`; do not edit. Right: rtol 1e-3 (float16: 2^-9, bfloat16: 2^-6, two of
their units), atol 1e-5, integers and bools exact, shapes and dtypes exact,
outputs by order (ours by name). WRONG is silent: nothing was raised. TFLite without Flex.

Tests of strings, sequences, optionals and random numbers are left out. **View A**: as they are, every operand an input
of the graph; *expanded* are the operators' bodies in the specification. **View B**: axes, shapes, pads and weights as
initializers, operators that PyTorch's exporters can emit, dtypes that TensorFlow computes in, ONNX Runtime right.

onnx2tf had 30 s for a case of view A (`--limit`): it searches layouts without end in 42 bodies of attention and losses.
Both its formats are of one conversion, so what did not end for TFLite was not tried again for SavedModel.
"""


def page(found: Found) -> str:
    """The page of all results."""
    sure = {name for name, (status, _) in found.get("onnxruntime/A", {}).items() if status == "right"}
    views = {
        "A, plain": ("A", [name for name, case in cases().items() if not case.expanded]),
        "A, expanded": ("A", [name for name, case in cases().items() if case.expanded]),
        "B": ("B", [name for name, case in cases().items() if in_view_b(case) and name in sure]),
    }
    heads = [f"{title} ({len(names)})" for title, (_, names) in views.items()]
    lines = [_HEAD, f"| right / WRONG / error | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for backend in BACKENDS:
        cells = [_cell(found.get(f"{backend}/{view}", {}), names) for view, names in views.values()]
        lines.append(f"| {backend} | {' | '.join(cells)} |")
    for backend in ("saved-model", "tflite"):
        for title, (view, names) in views.items():
            lines += _not_right(f"{backend}, view {title}", found.get(f"{backend}/{view}", {}), names)
    return "\n".join(lines) + "\n"


def _cell(answers: Mapping[str, list[str]], names: Iterable[str]) -> str:
    counts = Counter(answers[name][0] for name in names if name in answers)
    total = sum(counts.values())
    share = f" ({counts['right'] / total:.1%})" if total else ""
    return f"{counts['right']} / {counts['WRONG']} / {counts['error']}{share}" if total else "not run"


def _not_right(title: str, answers: Mapping[str, list[str]], names: Iterable[str]) -> list[str]:
    """Each case that is not right, by operator."""
    by_operator: dict[str, list[str]] = {}
    for name in names:
        status, _ = answers.get(name, ["right", ""])
        if status != "right":
            label = name.removeprefix("test_") + (" **WRONG**" if status == "WRONG" else "")
            by_operator.setdefault(cases()[name].op_type, []).append(label)
    if not by_operator:
        return []
    rows = [f"- {operator} ({len(each)}): {', '.join(each)}" for operator, each in sorted(by_operator.items())]
    return ["", f"<details><summary>Not right: {title}</summary>", "", *rows, "", "</details>"]
