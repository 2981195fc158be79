"""What several processes of a net share: the float64 answers, the ONNX files and the SavedModel. Each is made once, in
a process of its own; where that fails, a file beside says why, and the cells that need it say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpu_nets
import numpy as np

ROWS_AT_ONCE = 4  # float64 takes twice the memory
ONNX_PRECISIONS = ("fp32", "fp16", "bf16")
ONNX_FILE = "model.onnx"  # in a folder of its own, because weights may lie in a file beside it


def asset_paths(net: str, folder: Path, precisions: tuple[str, ...], *, tensorflow: bool) -> dict[str, Path]:
    """Return the path of each asset that a net needs, by the name of what makes it."""
    stored = sorted({precision.replace("tf32", "fp32") for precision in precisions})
    paths = {"reference": folder / f"{net}.reference.npz"}
    paths |= {f"onnx-{precision}": folder / f"{net}.{precision}.onnx" for precision in stored}
    if tensorflow:
        paths["saved-model"] = folder / f"{net}.saved_model"
    return paths


def missing_assets(paths: dict[str, Path]) -> list[str]:
    """Return the names of those that are neither there nor known to fail. The SavedModel is made of the ONNX file."""
    return [
        name for name, path in paths.items() if not path.exists() and not path.with_name(path.name + ".failed").exists()
    ]


def make_asset(kind: str, net: str, folder: Path, device: str, *, small: bool) -> dict[str, Any]:
    """Make one asset. A failure is written down beside it."""
    spec = gpu_nets.net_spec(net, small=small)
    path = asset_paths(net, folder, ONNX_PRECISIONS, tensorflow=True)[kind]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"part.{path.name}")  # renamed when whole: a process that is killed leaves no half of one
    try:
        if kind == "reference":
            make_reference(spec, part, device)
        elif kind == "saved-model":
            make_saved_model(folder / f"{net}.fp32.onnx" / ONNX_FILE, part)
        else:
            part.mkdir(exist_ok=True)
            export_onnx(spec, kind.removeprefix("onnx-"), part / ONNX_FILE)
        part.replace(path)
    except Exception as error:  # noqa: BLE001  whatever a library raises is the row's reason
        sentence = f"{kind} of {net} could not be made: {type(error).__name__}: {str(error).strip()[:300]}"
        path.with_name(path.name + ".failed").write_text(sentence)
        return {"asset": kind, "failed": sentence}
    return {"asset": kind}


def make_reference(spec: gpu_nets.NetSpec, path: Path, device: str) -> None:
    """Write the float64 answers of the eager net to all ROWS samples."""
    import torch

    net = gpu_nets.InPrecision(gpu_nets.build_net(spec), torch.float64).to(device)
    rows = torch.from_numpy(gpu_nets.host_input(spec, gpu_nets.ROWS))
    with torch.inference_mode():
        parts = [net(part.to(device)) for part in torch.split(rows, ROWS_AT_ONCE)]
    outputs = {name: torch.cat([part[at].cpu() for part in parts]).numpy() for at, name in enumerate(spec.outputs)}
    np.savez(path, **outputs)  # type: ignore[arg-type]


def export_onnx(spec: gpu_nets.NetSpec, precision: str, path: Path) -> None:
    """Write an ONNX file with these weights and a dynamic batch; float32 in and out."""
    import torch
    from gpu_subjects import torch_dtype

    net = gpu_nets.InPrecision(gpu_nets.build_net(spec), torch_dtype(precision)).eval()
    example = torch.from_numpy(gpu_nets.host_input(spec, 2))
    batch = torch.export.Dim("batch", min=1, max=4096)
    torch.onnx.export(
        net,
        (example,),
        str(path),
        dynamo=True,
        dynamic_shapes=({0: batch},),
        external_data=True,
        verbose=False,
        input_names=[spec.input_name],
        output_names=list(spec.outputs),
    )


def make_saved_model(source: Path, path: Path) -> None:
    """Lower the ONNX file to a SavedModel, as `transload convert` does."""
    import tensorflow as tf

    from transload.converters.onnx_to_tf.kernels.dialects import TENSORFLOW
    from transload.converters.onnx_to_tf.lower_model import lower
    from transload.converters.to_saved_model.saved_model_from_onnx import save

    with tf.device("/CPU:0"):
        save(lower(source, TENSORFLOW), path)
