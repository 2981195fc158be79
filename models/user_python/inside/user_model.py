"""A user's model in their own interpreter: made, described, called, with weights that come and go as tensors."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .factory_settings import factory_arguments
from .failures import Refusal
from .float64_mode import in_float64, widen_module
from .model_state import separate_overlaps, state_of_module
from .trees import decode_tree, encode_tree
from .user_code_import import import_object

if TYPE_CHECKING:
    import torch

_SEED = 0  # as in models/loading/build.py
_EXAMPLES = ("example_inputs", "example_input_array")  # of the module; the first also beside its factory


class UserModel:
    """The module that a reference names, in eval mode, without gradients, on the CPU."""

    def __init__(
        self, *, file: str | None, module: str | None, name: str, root: str | None, settings: Mapping[str, Any],
        recorded: Mapping[str, Any],
    ) -> None:  # fmt: skip
        import torch

        self.text, self._recorded = f"{file or module}:{name}", recorded
        self._notes: list[str] = []
        here = os.getcwd()
        if root:
            os.chdir(root)  # `configs/x.yaml` starts there
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(_SEED)
                factory, self._holder = import_object(file, module, name, root)
                torch.manual_seed(_SEED)
                model = self._made_by(factory, settings)
        finally:
            os.chdir(here)
        self.module = _unwrapped(model, self.text).eval().requires_grad_(False)
        part: Any
        for part in self.module.modules():
            if hasattr(part, "_jit_is_scripting"):  # lets torch.jit read the properties of Lightning's modules
                part._jit_is_scripting = True
        self._before = self._state()
        self._wide: tuple[float, int] | None = None

    def _made_by(self, factory: Any, settings: Mapping[str, Any]) -> Any:
        import torch

        if isinstance(factory, torch.nn.Module) or not callable(factory):
            if settings:
                raise Refusal(f"{self.text} is no class and no function, and takes no settings", "leave --set out")
            return factory
        if inspect.isabstract(factory):
            lacking = ", ".join(sorted(factory.__abstractmethods__))
            raise Refusal(f"{self.text} is abstract: it lacks {lacking}", "name a class that has them")
        arguments = factory_arguments(factory, settings, self.text, self._recorded)
        if offered := [name for name in arguments if name not in {key.partition(".")[0] for key in settings}]:
            names = ", ".join(offered)
            self._notes.append(f"{names}: from the settings in {self._recorded['file']}; --set has precedence")
        return factory(**arguments)

    def describe(self) -> dict[str, Any]:
        """Return what transload asks of a module before it calls it."""
        import torch

        parameters = inspect.signature(self.module.forward).parameters.values()
        empty = inspect.Parameter.empty
        uninitialized = torch.nn.parameter.UninitializedParameter
        weights = dict(self.module.named_parameters())
        kinds: dict[str, str] = {}
        for path, part in self.module.named_modules():
            kinds.setdefault(f"{type(part).__module__}.{type(part).__qualname__}", path)
        lazy = [name for name, weight in weights.items() if isinstance(weight, uninitialized)]
        return {
            "name": type(self.module).__name__,
            "notes": self._notes,
            "forward": [[row.name, int(row.kind), row.default is not empty] for row in parameters],
            "modules": kinds,
            "lazy": lazy,
            "meta": [name for name, weight in weights.items() if weight.is_meta],
            "quantized": [name for name, weight in weights.items() if name not in lazy and weight.is_quantized],
            "parameters": 0 if lazy else sum(weight.numel() for weight in weights.values()),
            "tables": sorted(
                {len(weight) for name, weight in weights.items() if name not in lazy and weight.ndim == 2}
            ),
            "buffers": [name for name, _ in self.module.named_buffers()],
        }

    def state(self) -> dict[str, torch.Tensor]:
        """Return the state dict. Raises Refusal where it holds something else than tensors."""
        import torch

        state = state_of_module(self.module)
        for name, value in state.items():
            if not isinstance(value, torch.Tensor):
                fix = "keep it out of get_extra_state()"
                raise Refusal(f"the state {name} is a {type(value).__name__}, not a tensor", fix)
        return dict(state)

    def load_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """Put other weights into the module; half-precision ones that were made float32 become so here, too."""
        own = state_of_module(self.module)
        separate_overlaps(self.module)
        own.update(state)  # keeps the layers' versions, which a file does not
        self.module.load_state_dict(own, strict=True)
        self._before = self._state()

    def widen_halves(self) -> None:
        """Make float16 and bfloat16 weights and buffers float32, which holds each of their values exactly."""
        import torch

        for tensor in [*self.module.parameters(), *self.module.buffers()]:
            if tensor.dtype in (torch.float16, torch.bfloat16):
                tensor.data = tensor.data.float()
        self._before = self._state()

    def widen(self, noise: float, seed: int) -> None:
        """Answer in float64 from now on, with a random error in every result (float64_mode.py)."""
        if self._wide is None:
            widen_module(self.module)
        self._wide = (noise, seed)

    def call(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Call the module without gradients."""
        import torch

        if self._wide is None:
            with torch.no_grad():
                return self.module(*arguments, **keywords)
        wide = [_widened(value) for value in arguments], {name: _widened(value) for name, value in keywords.items()}
        with torch.no_grad(), in_float64(*self._wide):
            return self.module(*wide[0], **wide[1])

    def changed(self) -> dict[str, Any]:
        """Return the names of tensors that calls have changed, and of modules that they put into training mode."""
        import torch

        now = self._state()
        names = [name for name in now if name not in self._before or not torch.equal(now[name], self._before[name])]
        training = [path or "the model" for path, part in self.module.named_modules() if part.training]
        return {"tensors": names, "training": training}

    def example(self) -> tuple[Any, str] | None:
        """Return the example inputs that the code has, and where; None where there are none."""
        for name in _EXAMPLES:
            own = getattr(self.module, name, None)
            value = own() if callable(own) else own
            if value is not None:
                return value, f"{name} of {type(self.module).__name__}"
        beside = getattr(self._holder, _EXAMPLES[0], None)
        if callable(beside):
            parameters = inspect.signature(beside).parameters.values()
            needed = [row for row in parameters if row.default is inspect.Parameter.empty]
            return (beside(self.module) if len(needed) == 1 else beside()), f"{_EXAMPLES[0]}() of {self.text}"
        return None

    def _state(self) -> dict[str, torch.Tensor]:
        """Return copies of the buffers, and of every tensor that a module keeps as an attribute."""
        import torch

        kept: dict[str, torch.Tensor] = {}
        for path, part in self.module.named_modules():
            own = {name: value for name, value in vars(part).items() if isinstance(value, torch.Tensor)}
            for name, value in [*part._buffers.items(), *own.items()]:
                if value is not None:
                    kept[f"{path}.{name}" if path else name] = value.detach().nan_to_num().clone()
        return kept


def _widened(value: Any) -> Any:
    """Return arguments with float32 tensors in float64, wherever they lie in them."""
    tensors: list[Any] = []
    document = encode_tree(value, tensors)
    return decode_tree(document, [tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors])


def _unwrapped(model: Any, text: str) -> torch.nn.Module:
    """Return the module inside a wrapper of torch.compile or DataParallel. Raises Refusal where it is no module."""
    import torch

    if isinstance(model, torch.jit.ScriptModule):
        fix = "save it with torch.jit.save, and name that file as the model"
        raise Refusal(f"{text} gives a TorchScript module", fix)
    if not isinstance(model, torch.nn.Module):
        fix = "name a class, a function or an instance that gives a module"
        raise Refusal(f"{text} gives a {type(model).__name__}, not a torch.nn.Module", fix)
    inner = getattr(model, "_orig_mod", None)
    if inner is None and isinstance(model, torch.nn.DataParallel):
        inner = model.module
    return _unwrapped(inner, text) if isinstance(inner, torch.nn.Module) else model
