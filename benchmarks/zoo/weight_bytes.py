"""The bytes of the weights of the zoo's models, as far as they are installed here: what a step reads and writes.

python benchmarks/zoo/weight_bytes.py [--out benchmarks/results/zoo_bytes.json]
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"


def weight_bytes(ref: str) -> int:
    """Return the bytes of parameters and buffers of a net, as "timm_nets.py:at_96.resnet10t" in nets/."""
    file, _, path = ref.partition(":")
    net: Any = importlib.import_module(file.removesuffix(".py"))
    for part in path.split("."):
        net = getattr(net, part)
    net = net() if callable(net) and not hasattr(net, "parameters") else net
    net = net() if isinstance(net, type) else net
    return sum(tensor.numel() * tensor.element_size() for tensor in [*net.parameters(), *net.buffers()])


def main() -> int:
    """Measure, print, write."""
    import torch

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS / "zoo_bytes.json")
    options = parser.parse_args()
    sys.path[:0] = [str(HERE), str(HERE / "nets")]
    library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]  # its own operators may be built for another torch
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import zoo_weights
    from catalogue import entries

    zoo_weights.realistic = lambda net, *_, **__: net  # the values do not matter
    sizes: dict[str, int] = {}
    for entry in entries():
        try:
            sizes[entry.name] = weight_bytes(entry.ref)
        except Exception as error:  # noqa: BLE001  (its package is not installed, or it is an ONNX file of one)
            print(f"{entry.name}: {type(error).__name__}", file=sys.stderr)
    options.out.write_text(json.dumps(sizes, indent=1) + "\n")
    print(len(sizes), "models, mean", statistics.mean(sizes.values()), "median", statistics.median(sizes.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
