"""Messages with tensors: what is written is read again, and what is no message is refused."""

from __future__ import annotations

import io

import pytest
import torch

from transload.models.user_python.inside.frames import BrokenFrame, read_frame, write_frame

TENSORS = [
    torch.arange(6, dtype=torch.float32).reshape(2, 3),
    torch.tensor(3, dtype=torch.int64),
    torch.zeros(0, 4, dtype=torch.float16),
    torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    torch.tensor([[True], [False]]),
    torch.arange(12.0).reshape(3, 4).t()[1:],
    torch.tensor([1 + 2j]).conj(),
]


def test_what_is_written_is_read_again() -> None:
    stream = io.BytesIO()
    write_frame(stream, {"do": "call", "text": "é"}, TENSORS)
    write_frame(stream, {"do": "next"})
    stream.seek(0)
    frame = read_frame(stream)
    assert frame is not None
    message, tensors = frame
    assert message == {"do": "call", "text": "é"}
    for ours, theirs in zip(TENSORS, tensors, strict=True):
        assert theirs.dtype == ours.dtype
        assert theirs.shape == ours.shape
        assert torch.equal(theirs, ours.resolve_conj())
    assert read_frame(stream) == ({"do": "next"}, [])
    assert read_frame(stream) is None


@pytest.mark.parametrize(
    "content",
    [
        b"nothing\n",
        b"{}\n",
        b'{"message": [], "tensors": []}\n',
        b'{"message": {}, "tensors": [{"dtype": "float32", "shape": [2]}]}\nabc',
        b'{"message": {}, "tensors": [{"dtype": "__class__", "shape": [2]}]}\n',
        b'{"message": {}, "tensors": [{"dtype": "int8", "shape": [-2]}]}\n',
        b'{"message": {}, "tensors": [{"dtype": "int8", "shape": [99999999999999]}]}\n',
    ],
)
def test_what_is_no_message_is_refused(content: bytes) -> None:
    with pytest.raises(BrokenFrame):
        read_frame(io.BytesIO(content))


def test_a_dtype_that_is_not_carried_is_named() -> None:
    stream = io.BytesIO()
    with pytest.raises(TypeError, match="uint16"):
        write_frame(stream, {}, [torch.zeros(2, dtype=torch.uint16)])
    assert stream.getvalue() == b""
