"""What PyTorch's sessions say of sizes that a program was not exported for."""

from __future__ import annotations

import warnings
from typing import NoReturn

import numpy as np
import pytest
import torch

from transload.models.errors import BadRequest, SessionLost
from transload.models.signature import Signature, parse_input
from transload.serving.runtimes.torch_callable import TorchSession, host_copy, in_axes

INPUTS = (parse_input("image=float32[batch,3,height,width]"), parse_input("state_k=float32[batch,time]"))


@pytest.mark.parametrize(
    ("guard", "text"),
    [
        ("2 * (image.size()[2] // 2) != image.size()[2]", "2 * (height // 2) != height"),
        ("math.trunc(0.29 * torch.sym_float(image.size()[3])) >= 2", "trunc(0.29 * width) >= 2"),
        ("max(1, image.size()[3] + -1 * image.size()[3] % 4) == 8", "max(1, width - width % 4) == 8"),
        ("state['k'].size()[1] == image.size()[1]", "time == 3"),
        ("other.size()[1] == image.size()[4]", "other.size()[1] == image.size()[4]"),
    ],
)
def test_a_condition_names_the_axes_as_the_signature_does(guard: str, text: str) -> None:
    assert in_axes(guard, INPUTS) == text


def raises(said: str) -> TorchSession:
    def module(*_: torch.Tensor) -> NoReturn:
        raise AssertionError(said)

    return TorchSession("torch", Signature(INPUTS[:1], INPUTS[:1]), module, torch.device("cpu"))


@pytest.mark.parametrize(
    ("said", "told"),
    [("Guard failed: image.size()[2] >= 8", "its program is for sizes with height >= 8 alone"), ("no such", "no such")],
)
def test_sizes_outside_of_a_program_are_told_in_a_sentence(said: str, told: str) -> None:
    with pytest.raises(SessionLost) as caught:
        raises(said).run({"image": np.ones((1, 3, 4, 4), np.float32)})
    assert caught.value.what == f"torch gave no answer to inputs that fit the signature: {told}"


def test_a_model_that_takes_gradients_itself_answers() -> None:
    def slope(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (made,) = torch.autograd.grad((x**3).sum(), x)
        return made

    session = TorchSession("torch", Signature(INPUTS[1:], INPUTS[1:]), slope, torch.device("cpu"))
    fed = np.array([[1, 2, 3]], np.float32)
    for _ in range(2):
        np.testing.assert_allclose(session.run({"state_k": fed})["state_k"], 3 * fed**2)


def test_an_index_beyond_a_table_is_the_values_fault_in_torchscript_too() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is deprecated as a whole
        module = torch.jit.trace(torch.nn.Embedding(3, 2), torch.zeros(1, 2, dtype=torch.int64))
    ids = Signature((parse_input("ids=int64[batch,2]"),), INPUTS[:1])
    session = TorchSession("torchscript", ids, module, torch.device("cpu"))
    with pytest.raises(BadRequest, match="torchscript refuses these values: index out of range in self"):
        session.run({"ids": np.full((1, 2), 3)})


def test_a_feed_is_copied_on_the_host_unless_another_device_copies_it() -> None:
    feed = np.zeros((2, 3), dtype=np.float32)
    assert host_copy(feed, copied_later=True) is feed
    assert not np.shares_memory(host_copy(feed, copied_later=False), feed)
    read_only = np.zeros(2)
    read_only.flags.writeable = False
    for unfit in (read_only, feed[::-1], feed.T):
        taken = host_copy(unfit, copied_later=True)
        assert taken.flags.c_contiguous
        assert taken.flags.writeable
        np.testing.assert_array_equal(taken, unfit)
