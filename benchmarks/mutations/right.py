"""Right copies by the plain libraries: both exporters at several opsets, optimised graphs, traced and scripted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import by_hand
import torch
from benchmark_models import DECLARED_MODELS, Model, by_name
from build import PAYLOADS, Artifact, Builder, traced
from exports import dynamo_export, export, torchscript_export
from mutants import ONNX, TORCHSCRIPT
from onnx_edit import GraphEdit

Make: TypeAlias = Callable[[Builder, Model, Path], None]


def _torchscript_export(opset: int, *, fold: bool = True) -> Make:
    return lambda _, model, path: torchscript_export(model.build(), model, path, opset, fold=fold)


def _dynamo_export(opset: int, *, optimize: bool = True) -> Make:
    return lambda _, model, path: dynamo_export(model.build(), model, path, opset, optimize=optimize)


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


def _converted(target: int) -> Make:
    def make(builder: Builder, model: Model, path: Path) -> None:
        import onnx
        import onnx.version_converter

        onnx.save(onnx.version_converter.convert_version(onnx.load(_own_onnx(builder, model)), target), path)

    return make


def _external_data(builder: Builder, model: Model, path: Path) -> None:
    import onnx

    whole = onnx.load(_own_onnx(builder, model))
    onnx.save(whole, path, save_as_external_data=True, location="weights.bin", size_threshold=64)


def _by_hand(builder: Builder, model: Model, path: Path) -> None:
    """Write layers in the other form that people write by hand: products and sums, written out norms, maxima."""
    graph = GraphEdit.load(_own_onnx(builder, model), model.build())
    for op_type, write in by_hand.FORMS.items():
        for node in graph.nodes(op_type):
            if by_hand.fits(node):
                graph.expand(node, write(node))
    graph.save(path)


def _own_onnx(builder: Builder, model: Model) -> Path:
    """Return transload's own copy; of the models of declarations torch's, which is made in seconds."""
    if model in DECLARED_MODELS:
        path = builder.work / "exported" / model.name / PAYLOADS[ONNX]
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            export(model.build(), model, path)
        return path
    return next(artifact.payload for artifact in builder.own(model) if artifact.form == ONNX)


def _trace(_: Builder, model: Model, path: Path) -> None:
    traced(model, model.build()).save(str(path))


def _trace_frozen(_: Builder, model: Model, path: Path) -> None:
    torch.jit.freeze(traced(model, model.build())).save(str(path))


def _script(_: Builder, model: Model, path: Path) -> None:
    torch.jit.script(model.build()).save(str(path))  # type: ignore[no-untyped-call]


def _script_frozen(_: Builder, model: Model, path: Path) -> None:
    torch.jit.freeze(torch.jit.script(model.build())).save(str(path))


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
# Each of these is asked of every model of declarations, and of some others.
_EVERY: dict[str, Make] = {
    "dynamo, opset 20": _dynamo_export(20),
    "torchscript-exporter, opset 18": _torchscript_export(18),
    "onnxruntime, basic": _optimized("ORT_ENABLE_BASIC"),
    "onnxruntime, all": _optimized("ORT_ENABLE_ALL"),
    "onnxsim": _simplified,
    "version_converter, up": _converted(23),
    "version_converter, down": _converted(17),
    "external data": _external_data,
    "by hand": _by_hand,
}
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
    ] + [
        (f"right/{model.name}/{ONNX}/{route}", model.name, ONNX, make)
        for model in DECLARED_MODELS
        for route, make in _EVERY.items()
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
