"""Small numbers that a model adds, and such as are nearly one: they are there so that nothing is divided by zero, and
stay in the ONNX."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from transload.converters.to_onnx.onnx_from_pt2 import onnx_from_pt2
from transload.models.artifact import write_artifact
from transload.models.exported_program import save_program
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature, parse_input


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        long = x / (x.norm(dim=-1, keepdim=True) + 1e-8)
        return long, (x + 1e-12).log(), 1 / (x - 1e-10), (1 - x * (1 - 1e-6)).log(), (1 - x / 0.999999).log()


def test_small_numbers_stay(tmp_path: Path) -> None:
    given = parse_input("x=float32[batch,3]")
    signature = Signature((given,), tuple(parse_input(f"y{at}=float32[batch,any]") for at in range(5)))
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    rows = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(Model(), (torch.rand(2, 3),), dynamic_shapes=rows)
    save_program(program, signature, source / "model.pt2")
    write_artifact(source, Target(Format.PT2), signature)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporter announces what it does with its own types
        onnx_from_pt2(Job({"source": source}, out, {}))
    session = onnxruntime.InferenceSession(out / "model.onnx", providers=["CPUExecutionProvider"])
    x = torch.tensor([[0.0, 0, 0], [1, 1, 1], [0.25, 0.5, 0]])
    for got, want in zip(session.run(None, {"x": x.numpy()}), Model()(x), strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-5)
