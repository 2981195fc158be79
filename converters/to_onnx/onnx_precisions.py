"""ONNX in calibrated static int8 (QDQ). Inputs and outputs keep their dtypes; onnx_half.py makes fp16."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ...models.artifact import read_artifact
from ...models.dataset import CALIBRATION, Dataset, read_dataset
from ...models.formats import Format, Precision, Target
from ...models.job import Job
from ...models.probes.feeds import CallRows, make_feeds
from ...models.probes.sizes import bounds_within
from ...models.signature import Array, Signature
from ..write_converted import write_converted

CALIBRATION_BATCH = 32


def _batches(data: Dataset, signature: Signature) -> Iterator[dict[str, Array]]:
    bounds = bounds_within(signature.inputs, signature.batch)
    for rows in CallRows(len(data), bounds.nearest(CALIBRATION_BATCH), bounds):
        yield make_feeds(data, rows, signature)


def onnx_int8_from_onnx(job: Job) -> Mapping[str, Any]:
    """Quantise weights per channel to 7 bits and activations per tensor to 8, with ranges from calibration.npz."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    source = read_artifact(job.inputs["source"])
    data = read_dataset(job.inputs["data"] / CALIBRATION, source.signature.inputs)
    reader = SimpleNamespace(get_next=partial(next, _batches(data, source.signature), None))
    # Without preprocessing a dynamo export has unknown inner shapes, and operators silently stay in float.
    ready = Path("preprocessed.onnx")
    quant_pre_process(str(source.path), str(ready), skip_symbolic_shape=True)
    quantize_static(
        str(ready),
        str(job.out / Format.ONNX.spec.payload),
        reader,
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
        # 7 bits of weights: processors without VNNI add two products of bytes in 16 bits, and ONNX Runtime lets them
        # saturate there. digits-cnn: 37.7 dB everywhere; with 8 bits 39.5 dB with VNNI and 16.5 dB without.
        reduce_range=True,
        calibrate_method=CalibrationMethod.MinMax,
    )
    write_converted(job, Target(Format.ONNX, Precision.INT8), source.signature)
    return {"calibration_samples": len(data)}
