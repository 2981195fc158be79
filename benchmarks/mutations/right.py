"""Right copies by the plain libraries: both exporters at several opsets, optimised graphs, traced and scripted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from benchmark_models import Model, by_name
from build import PAYLOADS, Artifact, Builder, traced
from declarations import draw_feeds, middle_sizes
from mutants import ONNX, TORCHSCRIPT
from runtimes import output_names

Make: TypeAlias = Callable[[Builder, Model, Path], None]


def _example(model: Model) -> tuple[torch.Tensor, ...]:
    feeds = draw_feeds(model.inputs, np.random.default_rng(6), middle_sizes(model.inputs, 3))
    return tuple(torch.from_numpy(array) for array in feeds.values())


def _axes(model: Model) -> dict[str, dict[int, str]]:
    return {
        one_input.name: {
            at: dim.partition("=")[0] for at, dim in enumerate(one_input.dims) if not dim.isdecimal()
        }
        for one_input in model.inputs
    }  # fmt: skip


def _torchscript_export(opset: int, *, fold: bool = True) -> Make:
    def make(_: Builder, model: Model, path: Path) -> None:
        names = output_names(model)
        torch.onnx.export(
            model.build(), _example(model), str(path), dynamo=False, opset_version=opset, do_constant_folding=fold,
            input_names=[one_input.name for one_input in model.inputs], output_names=names,
            dynamic_axes={**_axes(model), **{name: {0: "batch"} for name in names}},
        )  # fmt: skip

    return make


def _dynamo_export(opset: int, *, optimize: bool = True) -> Make:
    def make(_: Builder, model: Model, path: Path) -> None:
        bounds = {axis: ends for one_input in model.inputs for axis, ends in one_input.bounds.items()}
        dims = {
            axis: torch.export.Dim(axis, min=max(low, 2) if low > 1 else 1, max=high)
            for axis, (low, high) in bounds.items()
        }
        dims["batch"] = torch.export.Dim("batch", min=1, max=4096)
        shapes = tuple({at: dims[axis] for at, axis in axes.items()} for axes in _axes(model).values())
        program = torch.onnx.export(
            model.build(), _example(model), dynamo=True, opset_version=opset, optimize=optimize, dynamic_shapes=shapes,
            input_names=[one_input.name for one_input in model.inputs], output_names=output_names(model),
            verbose=False,
        )  # fmt: skip
        if program is None:
            raise RuntimeError("no program")
        program.save(str(path))

    return make


def _optimized(level: str) -> Make:
    def make(builder: Builder, model: Model, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.optimized_model_filepath, options.log_severity_level = str(path), 4
        onnxruntime.InferenceSession(str(_own_onnx(builder, model)), options, providers=["CPUExecutionProvider"])

    return make


def _simplified(builder: Builder, model: Model, path: Path) -> None:
    import onnx
    import onnxsim

    simple, ok = onnxsim.simplify(onnx.load(_own_onnx(builder, model)))
    if not ok:
        raise RuntimeError("onnxsim's own check says no")
    onnx.save(simple, path)


def _own_onnx(builder: Builder, model: Model) -> Path:
    return next(artifact.payload for artifact in builder.own(model) if artifact.form == ONNX)


def _trace(_: Builder, model: Model, path: Path) -> None:
    traced(model, model.build()).save(str(path))


def _trace_frozen(_: Builder, model: Model, path: Path) -> None:
    torch.jit.freeze(traced(model, model.build())).save(str(path))  # type: ignore[no-untyped-call]


def _script(_: Builder, model: Model, path: Path) -> None:
    torch.jit.script(model.build()).save(str(path))


def _script_frozen(_: Builder, model: Model, path: Path) -> None:
    torch.jit.freeze(torch.jit.script(model.build())).save(str(path))  # type: ignore[no-untyped-call]


_EXPORTS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "torchscript-exporter, opset 13": (_torchscript_export(13), ("residual-net", "classifier", "lstm", "table-net")),
    "torchscript-exporter, opset 17": (
        _torchscript_export(17), ("batch-norm-net", "mobile-net", "encoder", "decoder", "gru", "recommender", "vae")),
    "torchscript-exporter, opset 17, not folded": (_torchscript_export(17, fold=False), ("norm-net", "spectrum-net")),
    "dynamo, opset 18": (_dynamo_export(18), ("batch-norm-net", "u-net", "encoder", "classifier", "gauges")),
    "dynamo, opset 18, not optimised": (_dynamo_export(18, optimize=False), ("batch-norm-net", "decoder", "vae")),
    "dynamo, opset 21": (_dynamo_export(21), ("residual-net", "super-resolution", "table-net")),
    "onnxruntime, basic": (_optimized("ORT_ENABLE_BASIC"), ("residual-net", "encoder", "u-net")),
    "onnxruntime, extended": (_optimized("ORT_ENABLE_EXTENDED"), ("decoder", "mobile-net", "norm-net", "classifier")),
    "onnxsim": (_simplified, ("batch-norm-net", "u-net", "encoder", "lstm", "detector", "spectrum-net")),
}  # fmt: skip
_SCRIPTS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "torch.jit.trace": (_trace, ("residual-net", "mobile-net", "classifier", "table-net")),
    "torch.jit.trace, frozen": (_trace_frozen, ("batch-norm-net", "norm-net", "vae")),
    "torch.jit.script": (_script, ("batch-norm-net", "mobile-net", "vae", "gauges", "classifier")),
    "torch.jit.script, frozen": (_script_frozen, ("residual-net", "recommender", "calendar")),
}


def plans() -> list[tuple[str, str, str, Make]]:
    """Return (name, model, format, maker) of each copy by a plain library."""
    return [
        (f"right/{model}/{form}/{route}", model, form, make)
        for form, routes in ((ONNX, _EXPORTS), (TORCHSCRIPT, _SCRIPTS))
        for route, (make, models) in routes.items()
        for model in models
    ]


def build(builder: Builder, name: str, model_name: str, form: str, make: Make) -> Artifact:
    """Make a copy by a plain library. Raises what that raises."""
    path = builder.work / "right" / name.replace("/", ".").replace(" ", "-").replace(",", "") / PAYLOADS[form]
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make(builder, by_name()[model_name], path)
    return Artifact(name, model_name, form, path, path, name.rpartition("/")[2])
