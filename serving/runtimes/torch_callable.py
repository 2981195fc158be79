"""The session over a PyTorch callable, which both of PyTorch's runtimes use."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.errors import ToolMissing
from ...models.probes.thresholds import Hear
from ...models.signature import Array, Signature, TensorSpec
from ...models.user_python.inside.float64_mode import in_float64, widen_module
from ..checked_session import CheckedSession, SizeExcluded, answering
from .provider_check import numbered_device

if TYPE_CHECKING:
    import torch

_GUARD = re.compile(r"Guard failed: (?P<guard>.+)", re.DOTALL)  # of an exported program, in torch's words
# How TorchScript's interpreter tells of an index among the values. One of `select` was traced, and is of the sizes.
_INDEX = re.compile(
    r"^RuntimeError: (index out of range in self|.*\bis out of bounds for dimension\b.*)\s*\Z", re.MULTILINE
)
_SIZE = re.compile(r"(?P<name>\w+)(?P<keys>(?:\[[^\]]*\])*)\.size\(\)\[(?P<axis>\d+)\]")


def torch_device(device: str, threads: int) -> torch.device:
    """Return the device by its name; limit this process to `threads` threads within an operator and one between.
    Raises ToolMissing where there is no such device."""
    import torch

    torch.set_num_threads(threads)
    with contextlib.suppress(RuntimeError):  # it can be set once, and not after the first parallel work
        torch.set_num_interop_threads(1)
    target = torch.device(numbered_device(device))
    if target.type == "cuda" and (target.index or 0) >= torch.cuda.device_count():
        raise ToolMissing(
            f"PyTorch finds {torch.cuda.device_count()} CUDA devices here, and {device} was asked for",
            fix="use --device cpu, or see transload doctor",
        )
    if target.type == "cuda":
        _full_precision(torch)
    return target


def _full_precision(torch: Any) -> None:
    """float32 as float32. By default cuDNN rounds to TF32, 10 bits, which alone moves a copy below 60 dB."""
    for part in (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn):
        part.fp32_precision = "ieee"


def use_onednn(*, enabled: bool) -> None:
    """Let PyTorch call oneDNN in this process, or not."""
    import torch

    torch.backends.mkldnn.set_flags(enabled)  # type: ignore[no-untyped-call]


def lay_channels_last(module: Any) -> None:
    """Lay the weights of 4 axes out with the channels last, where the callable has any."""
    import torch

    if hasattr(module, "to"):
        module.to(memory_format=torch.channels_last)


class TorchSession(CheckedSession):
    """A module in inference mode. Answers are on the host, and done, when run() returns: `.cpu()` waits for them.
    `device` is that of the last answers, before they came to the host; before the first run, of the weights."""

    def __init__(
        self,
        runtime: str,
        signature: Signature,
        module: Callable[..., Any],
        device: torch.device,
        *,
        channels_last: bool = False,
    ) -> None:
        import torch

        from ...models.loading.build import name_outputs

        parameters: Callable[[], Iterable[torch.Tensor]] = getattr(module, "parameters", tuple)
        super().__init__(runtime, signature, _device_of(parameters()) or str(device), (IndexError,))
        self._module: Any = module
        self._at = device
        self._torch = torch
        self._named = name_outputs
        self._quiet: Callable[[], contextlib.AbstractContextManager[None]] = torch.inference_mode
        self._channels_last = channels_last
        if channels_last:
            lay_channels_last(module)
        self._wide = False
        self._noise, self._seed = 0.0, 0

    def widen(self, noise: float = 0.0, seed: int = 0) -> None:
        """See serving.session.WideningSession.widen. No second copy of the weights is held."""
        if not self._wide:
            with answering(self._runtime):
                widen_module(self._module)
        self._wide, self._noise, self._seed = True, noise, seed

    def watch(self, feeds: Mapping[str, Array], hear: Hear) -> None:
        """See serving.session.WatchedSession.watch."""
        from ..tracing.watched_numbers import watch

        tensors = [self._torch.from_numpy(np.array(value, order="C")).to(self._at) for value in self._check(feeds)]
        with answering(self._runtime, self._argument_errors):
            watch(self._module, tensors, hear)

    @property
    def table_rows(self) -> tuple[int, ...]:
        """How many rows each of the module's matrices has: an embedding is one of them."""
        parameters: Callable[[], Iterable[torch.Tensor]] = getattr(self._module, "parameters", tuple)
        return tuple({len(weight) for weight in parameters() if weight.ndim == 2})

    def _answer(self, values: Sequence[Array]) -> list[Array]:
        torch = self._torch
        # Made outside of inference mode, so that an answer which is a view of an input can be told (_owned).
        copied = self._at.type != "cpu"
        tensors = [torch.from_numpy(host_copy(value, copied_later=copied)).to(self._at) for value in values]
        if self._channels_last:
            tensors = [
                tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor
                for tensor in tensors
            ]
        returned = self._run_in_float64(tensors) if self._wide else self._run_module(tensors)
        answers = self._named(returned, self._outputs).values()
        self.device = _device_of(answers) or self.device
        return [_owned(answer) for answer in answers]

    def _run_in_float64(self, tensors: Sequence[torch.Tensor]) -> Any:
        wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors]
        with self._torch.no_grad(), in_float64(self._noise, self._seed):
            return self._called(wide)

    def _run_module(self, tensors: Sequence[torch.Tensor]) -> Any:
        no_grad = self._torch.no_grad
        try:
            with self._quiet():
                return self._called(tensors)
        except RuntimeError as error:
            if self._quiet is no_grad or not re.search("grad|backward", str(error)):
                raise
        self._quiet = no_grad  # it takes gradients itself, inside of enable_grad: no tensor of inference mode has any
        return self._run_module(tensors)

    def _called(self, tensors: Sequence[torch.Tensor]) -> Any:
        try:
            return self._module(*tensors)
        except AssertionError as error:
            if guard := _GUARD.match(str(error)):
                only = in_axes(guard["guard"], self.signature.inputs)
                raise SizeExcluded(f"its program is for sizes with {only} alone") from error
            raise
        except RuntimeError as error:
            if index := _INDEX.search(str(error)):
                raise IndexError(index[1]) from error
            raise

    def _release(self) -> None:
        del self._module
        if self._at.type == "cuda":
            self._torch.cuda.empty_cache()


def host_copy(value: Array, *, copied_later: bool) -> Array:
    """Return an array that PyTorch may take and a module may write into: a copy, because PyTorch takes neither
    read-only nor reversed arrays. `copied_later`: it goes to another device, which copies; what fits is passed on."""
    if copied_later and value.flags.c_contiguous and value.flags.writeable:
        return value
    return np.array(value, order="C")


def in_axes(guard: str, specs: Sequence[TensorSpec]) -> str:
    """Rewrite a size condition of an exported program, `x.size()[2] >= 2`, with the names of the axes."""
    shapes = {spec.name: spec.shape for spec in specs}

    def axis(match: re.Match[str]) -> str:
        name = "_".join([match["name"], *re.findall(r"\w+", match["keys"])])
        shape = shapes.get(name, ())
        return str(shape[int(match["axis"])]) if int(match["axis"]) < len(shape) else match[0]

    return re.sub(r"torch\.sym_\w+\((\w+)\)|math\.", r"\1", _SIZE.sub(axis, guard)).replace("+ -1 * ", "- ")


def _owned(answer: torch.Tensor) -> Array:
    """Return the tensor's values in memory of the caller's own. A tensor made in inference mode belongs to nobody else;
    a view of an input, a weight or a buffer was not made in it, and is copied."""
    on_host = answer.detach().cpu().numpy()
    return on_host if answer.is_inference() or answer.is_cuda else on_host.copy()


def _device_of(tensors: Iterable[torch.Tensor]) -> str | None:
    """Where the tensors lie: "cpu" as soon as one lies there, None if there are none."""
    places = {str(tensor.device) for tensor in tensors}
    return "cpu" if "cpu" in places else min(places, default=None)
