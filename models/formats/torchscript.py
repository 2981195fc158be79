"""TorchScript: an archive of code and weights."""

from __future__ import annotations

from .format_spec import FileHead, FormatSpec
from .torch_snippet import torch_snippet

_SNIPPET = torch_snippet("torch.jit.load({file})")


def _has_content(head: FileHead) -> bool:
    return "constants.pkl" in head.inner_names


SPEC = FormatSpec(
    name="torchscript",
    title="TorchScript",
    payload="model.pt",
    runtime="torchscript",
    suffixes=(".pt", ".pth"),
    requires=("torch",),
    has_content=_has_content,
    snippet=lambda **_: _SNIPPET,
    declares_inputs=False,
    reader="transload.converters.readers.torchscript.torchscript_reader:import_torchscript",
    checker="transload.converters.readers.torchscript.torchscript_reader:check_payload",
    describer="transload.converters.readers.torchscript.torchscript_reader:describe_torchscript_file",
    recorder="transload.serving.tracing.traced_script:ScriptRecorder",
    mlflow="torchscript",
)
