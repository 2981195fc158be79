"""A TorchScript that raises on random inputs: what it takes is found by asking it."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest
import torch

from transload.converters.readers.torchscript.torchscript_file import check_torchscript, describe_torchscript
from transload.models.errors import BadRequest
from transload.models.signature import parse_input


class Table(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(2, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids)


class Windows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1] // 4, 4).sum(-1)


def scripted(module: torch.nn.Module) -> torch.jit.ScriptModule:
    with pytest.warns(DeprecationWarning, match="torch.jit"):
        script: torch.jit.ScriptModule = torch.jit.script(module)
    return script


@pytest.mark.parametrize(
    ("module", "spec", "accepted", "note"),
    [
        (
            Table(), "ids=int64[batch,n]", "ids=int64[batch,n] in 0..1",
            "ids: ids 0..1 by its smallest table; give --data for more",
        ),
        (
            Windows(), "x=float32[batch,n]", "x=float32[batch,n=4..:4]",
            "sizes n=4..:4 by asking the model, which refuses others",
        ),
    ],
)  # fmt: skip
def test_values_and_sizes_that_it_takes_are_used_and_told(
    module: torch.nn.Module, spec: str, accepted: str, note: str
) -> None:
    signature, _, notes = describe_torchscript(scripted(module), [parse_input(spec)], Path("net.pt"))
    assert signature.inputs == (parse_input(accepted),)
    assert notes == (note,)


def test_a_shape_that_nothing_mends_is_refused() -> None:
    with pytest.raises(BadRequest) as caught:
        describe_torchscript(scripted(Windows()), [parse_input("x=float32[batch,3]")], Path("net.pt"))
    assert caught.value.fix == "hold x=float32[batch,3] against what it takes"


def test_a_zip_of_several_disks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/constants.pkl", b"")
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 1, 0, 7)  # of the directory in 64 bits, on the second of 7 disks
    content = path.read_bytes()
    path.write_bytes(content[:-22] + locator + content[-22:])
    with pytest.raises(BadRequest, match=r"net\.pt is not a whole TorchScript archive: "):
        check_torchscript(path)


def test_packed_code_that_does_not_unpack_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/constants.pkl", b"x" * 100)
        archive.writestr("net/code/net.py", "")
    content = bytearray(path.read_bytes())
    at = content.index(b"constants.pkl") + len("constants.pkl")
    content[at] = 0xFF  # a block of a kind that deflate does not have
    path.write_bytes(content)
    with pytest.raises(BadRequest, match=r"net\.pt is not a whole TorchScript archive: Error -3"):
        check_torchscript(path)
