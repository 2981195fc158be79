"""PyTorch's exported program."""

from __future__ import annotations

from .format_spec import FileHead, FormatSpec
from .torch_snippet import torch_snippet

OLD_PROGRAM = "serialized_exported_program.json"  # at the root of an archive: torch before 2.8 wrote it there
_SNIPPET = torch_snippet("torch.export.load({file}).module()")


def _has_content(head: FileHead) -> bool:
    is_program = any(name.startswith("models/") and name.endswith(".json") for name in head.inner_names)
    return OLD_PROGRAM in head.names or is_program


SPEC = FormatSpec(
    name="pt2",
    title="PyTorch exported program",
    payload="model.pt2",
    runtime="torch",
    suffixes=(".pt2",),
    requires=("torch",),
    has_content=_has_content,
    snippet=lambda **_: _SNIPPET,
    is_program=True,
    reader="transload.converters.readers.pt2.pt2_reader:import_pt2",
    checker="transload.converters.readers.pt2.pt2_reader:check_payload",
    describer="transload.converters.readers.pt2.pt2_reader:describe_pt2",
    mlflow="pytorch",
)
