"""The models of the proof: small nets of nets.py, or those of the zoo that took least time. Writes a models file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ZOO = HERE.parent / "zoo"
RESULTS = HERE.parent / "results" / "zoo.json"
_SAMPLES = 6


@dataclass(frozen=True)
class ChosenModels:
    """Which models, and how they were chosen."""

    kind: str  # "zoo" or "nets"
    names: tuple[str, ...]
    how: str
    file: Path  # the models file


def choose_models(text: str, targets: Sequence[str], folder: Path) -> ChosenModels:
    """Write the models file and the samples of `zoo:N` or `nets:N` into a folder."""
    kind, _, number = text.partition(":")
    write = {"zoo": _write_zoo, "nets": _write_nets}[kind]
    folder.mkdir(parents=True, exist_ok=True)
    tables, names, how = write(int(number), folder)
    head = f"[defaults]\nto = {json.dumps(list(targets))}\npython = 'self'\n"
    file = folder / "models.toml"
    file.write_text("\n".join([head, *tables]))
    return ChosenModels(kind, tuple(names), how, file)


def _table(name: str, source: str, inputs: Sequence[str], data: Path | None = None) -> str:
    lines = [f"name = {json.dumps(name)}", f"source = {json.dumps(source)}", f"inputs = {json.dumps(list(inputs))}"]
    if data:
        lines.append(f"data = {json.dumps(str(data))}")
    return "\n".join(["[[model]]", *lines, ""])


def _write_nets(count: int, _folder: Path) -> tuple[list[str], list[str], str]:
    names = [f"net_{number}" for number in range(count)]
    tables = [_table(name, f"{HERE / 'nets.py'}:{name}", ["x=float32[batch,16]"]) for name in names]
    return tables, names, f"the first {count} of benchmarks/cluster/nets.py"


def _write_zoo(count: int, folder: Path) -> tuple[list[str], list[str], str]:
    """Take the models whose row `onnx` of the recorded zoo took least time, of those that are code and that need no
    package beside torch, torchvision, timm and transformers."""
    import numpy as np

    sys.path.insert(0, str(ZOO))
    from catalogue import entries

    rows = json.loads(RESULTS.read_text())["rows"]
    seconds = {row["model"]: row["seconds"] for row in rows if row["column"] == "onnx" and row["seconds"]}
    able = [entry for entry in entries() if entry.family != "packaged" and seconds.get(entry.name)]
    chosen = sorted(able, key=lambda entry: (seconds[entry.name], entry.name))[:count]
    tables, names = [], []
    for entry in chosen:
        name = entry.name.replace("/", ".").replace(" ", "-")
        rng = np.random.default_rng(0)
        arrays = {}
        for text, draw in entry.inputs.items():
            array_name, dtype, shape = _parsed(text, {**entry.sizes[0], "batch": _SAMPLES})
            arrays[array_name] = np.asarray(draw(rng, shape), dtype=dtype)
        data = folder / f"{name}.npz"
        if not data.exists():  # a case that goes on must find the file unchanged
            np.savez(data, **arrays)  # type: ignore[arg-type]
        tables.append(_table(name, f"{ZOO / 'nets' / entry.ref}", list(entry.inputs), data))
        names.append(name)
    total = sum(seconds[entry.name] for entry in chosen)
    how = (
        f"of the {len(able)} zoo models that are code and need no package of their own, the {count} whose ONNX took "
        f"least time when benchmarks/results/zoo.json was recorded ({total:.0f} s together)"
    )
    return tables, names, how


def _parsed(text: str, sizes: dict[str, int]) -> tuple[str, str, tuple[int, ...]]:
    from transload.models.signature import parse_input

    spec = parse_input(text)
    return spec.name, str(spec.dtype), tuple(axis if isinstance(axis, int) else sizes[axis] for axis in spec.shape)
