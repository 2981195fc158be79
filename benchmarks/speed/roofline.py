"""What this machine can compute at most, in fp32 and int8: the bound of every speedup of ResNet-50.

    python benchmarks/speed/roofline.py [--repeats 300] [--out FILE.json]

Square products of matrices on one core, and ResNet-50 in eager PyTorch, each in a process of its own, by all
instructions of the processor and by AVX2 alone (which has no VNNI). One thread, and its processor time in place of the
clock's: other work on the machine takes the core away, and that time is not counted. A rate is that of the fastest
call.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from transload.pipeline.result.environment import describe_environment

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "roofline.json"
SIZE = 768
AVX2 = {
    "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
}  # fmt: skip
Call = Callable[[], object]


def main() -> int:
    """Measure each kernel in a process of its own, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--kernel", choices=KERNELS, help="measure this one here, and print its seconds")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.kernel:
        print(json.dumps(measure(options.kernel, options.repeats)))
        return 0
    rows = []
    for name in KERNELS:
        for isa, variables in (("all", {}), ("AVX2", AVX2)):
            if isa == "AVX2" and name.startswith("onnxruntime"):
                continue  # it chooses its instructions itself
            repeats = max(10, options.repeats // 10) if name == "resnet50" else options.repeats
            words = ("roofline.py", "--kernel", name, "--repeats", str(repeats))
            done = subprocess.run(
                (sys.executable, *words), cwd=HERE, env={**os.environ, **variables}, capture_output=True, text=True,
                check=True,
            )  # fmt: skip
            row = {"kernel": name, "instructions": isa, "load": os.getloadavg()[0], **json.loads(done.stdout)}
            rows.append(row)
            print(
                f"{name} ({isa}): {row['gops_per_s']:.0f} Gop/s, fastest {row['best_s'] * 1e3:.2f} ms, median "
                f"{row['median_s'] * 1e3:.2f} ms, load {row['load']:.1f}",
                flush=True,
            )
    document = {"environment": vars(describe_environment()), "threads": 1, "rows": rows}
    options.out.write_text(json.dumps(document, indent=1, default=str) + "\n")
    return 0


def measure(kernel: str, repeats: int) -> dict[str, Any]:
    """Return the processor time of the fastest call of a kernel, the median, and operations a second (two for each
    multiplication)."""
    warnings.simplefilter("ignore")
    call, operations = KERNELS[kernel]()
    seconds = []
    for _ in range(repeats):
        start = time.thread_time()
        call()
        seconds.append(time.thread_time() - start)
    best = min(seconds)
    return {
        "gops_per_s": operations / best / 1e9, "best_s": best, "median_s": float(np.median(seconds)),
        "gmac": operations / 2e9,
    }  # fmt: skip


def torch_fp32() -> tuple[Call, float]:
    """Multiply float32 by the BLAS of PyTorch."""
    import torch

    torch.set_num_threads(1)
    a, b, out = (torch.rand(SIZE, SIZE) for _ in range(3))
    return lambda: torch.mm(a, b, out=out), 2 * SIZE**3


def torch_int8(engine: str) -> Callable[[], tuple[Call, float]]:
    """Multiply uint8 by int8 in an engine of PyTorch's quantised operators."""

    def prepare() -> tuple[Call, float]:
        import torch

        torch.set_num_threads(1)
        torch.backends.quantized.engine = engine
        x = torch.quantize_per_tensor(torch.rand(SIZE, SIZE), 0.01, 0, torch.quint8)
        weight = torch.quantize_per_tensor(torch.rand(SIZE, SIZE) - 0.5, 0.005, 0, torch.qint8)
        packed = torch.ops.quantized.linear_prepack(weight, None)
        return lambda: torch.ops.quantized.linear(x, packed, 1.0, 0), 2 * SIZE**3

    return prepare


def onnxruntime_int8() -> tuple[Call, float]:
    """Multiply uint8 by int8 in ONNX Runtime: MatMulInteger."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.integers(-63, 64, (SIZE, SIZE)).astype(np.int8), "w")
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, [SIZE, SIZE])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, [SIZE, SIZE])
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {"x": rng.integers(0, 256, (SIZE, SIZE)).astype(np.uint8)}
    return lambda: session.run(None, feeds), 2 * SIZE**3


def resnet50() -> tuple[Call, float]:
    """Answer one image with ResNet-50, eager; its operations are counted by PyTorch."""
    import torch
    from nets_torch import resnet50 as make_net
    from torch.utils.flop_counter import FlopCounterMode

    torch.set_num_threads(1)
    net, image = make_net().eval(), torch.rand(1, 3, 224, 224)
    with torch.inference_mode():
        with FlopCounterMode(display=False) as counter:
            net(image)

        def call() -> object:
            with torch.inference_mode():
                return net(image)

        return call, counter.get_total_flops()


KERNELS: dict[str, Callable[[], tuple[Call, float]]] = {
    "torch fp32": torch_fp32,
    "torch int8 (fbgemm)": torch_int8("fbgemm"),
    "torch int8 (onednn)": torch_int8("onednn"),
    "onnxruntime int8": onnxruntime_int8,
    "resnet50": resnet50,
}


if __name__ == "__main__":
    sys.exit(main())
