"""The modules of a model as models of their own: what they are fed, what they give, and which axes are dynamic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from transload.converters.minimal_repro.torch_pieces import ModuleRecorder
from transload.models.signature import Signature, parse_input


@pytest.fixture
def recorder() -> ModuleRecorder:
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(7, 5), torch.nn.Linear(5, 5)])
            self.rnn = torch.nn.LSTM(5, 6, batch_first=True)
            self.idle = torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x)
            return self.rnn(x)[0]

    rng = np.random.default_rng(0)
    feeds = [{"rows": rng.standard_normal((batch, 4, 7)).astype(np.float32)} for batch in (2, 3)]
    signature = Signature((parse_input("rows=float32[batch,4,7]"),), (parse_input("y=float32[batch,4,6]"),))
    return ModuleRecorder(Net().eval(), signature, *feeds)


def test_lists_are_looked_through_and_what_is_not_called_is_no_piece(recorder: ModuleRecorder) -> None:
    assert list(recorder.inside("")) == ["layers.0", "layers.1", "rnn"]
    assert recorder.piece("idle") is None
    assert recorder.piece("layers") is None


def test_the_whole_has_the_names_that_a_mend_may_speak_of(recorder: ModuleRecorder) -> None:
    names = {path: [*piece.feeds] for path in ("", "layers.0") if (piece := recorder.piece(path))}
    assert names == {"": ["rows"], "layers.0": ["x0"]}


def test_a_module_has_the_axes_that_changed_with_the_batch(recorder: ModuleRecorder) -> None:
    piece = recorder.piece("layers.1")
    assert piece is not None
    assert [spec.shape for spec in piece.signature.inputs] == [("batch", 4, 5)]
    assert piece.description == "the module layers.1 (Linear)"


@pytest.mark.parametrize("path", ["", "layers.0", "rnn"])
def test_a_piece_is_a_source_that_answers_as_the_module_does_in_the_whole(
    path: str, recorder: ModuleRecorder, tmp_path: Path
) -> None:
    import torch

    from transload.models.loading.build import build_model, call_model
    from transload.models.sources import read_source

    piece = recorder.piece(path)
    assert piece is not None
    piece.write(tmp_path)
    signature = read_source(tmp_path).signature
    with torch.no_grad():
        got = call_model(build_model(tmp_path), signature, [torch.from_numpy(each) for each in piece.feeds.values()])
    assert list(got) == list(piece.expected)
    for name, value in got.items():
        np.testing.assert_allclose(value.numpy(), piece.expected[name], rtol=1e-5, atol=1e-6)
