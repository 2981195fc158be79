"""A module here that stands for a user's module in another interpreter: whoever calls it gets that one's answers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest, StepFailed
from ..loading.call_convention import Call, flat
from ..loading.example_inputs import Example, parse_example
from ..loading.module_checks import QUANTISED
from ..loading.weight_files import add_note, read_weights
from ..signature import BATCH, TensorSpec, served_dtype
from ..sources import WEIGHTS, CodeRef, Source
from .inside.trees import decode_tree, encode_tree
from .plain_settings import plain_settings
from .user_process import UserProcess

if TYPE_CHECKING:
    import torch

_KINDS = (
    inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD,
)  # fmt: skip  # as Python numbers them
_HALVES = ("torch.float16", "torch.bfloat16")


@dataclass(frozen=True)
class ModuleDescription:
    """What the other interpreter says of a module before it is called (inside/user_model.py)."""

    name: str
    forward: tuple[tuple[str, int, bool], ...]  # its parameters: name, kind, whether it has a default
    modules: Mapping[str, str]  # the classes of its parts, each with the path of one
    lazy: tuple[str, ...]  # weights without a shape yet
    meta: tuple[str, ...]  # weights without values
    quantized: tuple[str, ...]
    parameters: int  # numbers in all weights
    tables: tuple[int, ...]  # how many rows its matrices have
    buffers: tuple[str, ...]
    notes: tuple[str, ...] = ()  # sentences for the user
    inputs: tuple[TensorSpec, ...] = ()  # that it declares itself, as a graph of Keras layers does

    @staticmethod
    def of(record: Any) -> ModuleDescription:
        """Return the description in a reply. Raises StepFailed where it is none."""
        try:
            forward = tuple((str(name), int(kind), bool(default)) for name, kind, default in record["forward"])
            modules = {str(kind): str(path) for kind, path in record["modules"].items()}
            lists = ("lazy", "meta", "quantized", "buffers")
            names = {key: tuple(map(str, record[key])) for key in lists}
            tables = tuple(map(int, record["tables"]))
            inputs = tuple(map(_declared_input, record.get("inputs", ())))
            return ModuleDescription(
                str(record["name"]), forward, modules, parameters=int(record["parameters"]), tables=tables,
                notes=tuple(map(str, record.get("notes", ()))), inputs=inputs, **names,
            )  # fmt: skip
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise StepFailed("the other interpreter described no module", fix="the log has more") from error

    def signature(self) -> inspect.Signature:
        """Return the signature of its forward, with `self`."""
        rows = [
            inspect.Parameter(name, _KINDS[kind], default=None if default else inspect.Parameter.empty)
            for name, kind, default in self.forward
        ]
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        return inspect.Signature([first, *rows])


def _declared_input(record: Mapping[str, Any]) -> TensorSpec:
    """Return an input that a model of Keras declares, its open axes named as those of a .keras file are."""
    name, shape = str(record["name"]), [None if size is None else int(size) for size in record["shape"]]
    axes = tuple((f"{name}_{at}" if at else BATCH) if size is None else size for at, size in enumerate(shape))
    try:
        return TensorSpec(name, served_dtype(str(record["dtype"])), axes)
    except ValueError as error:
        fix = "make a model that takes numbers"
        raise BadRequest(f"the input {name} is {record['dtype']}, which the formats do not carry", fix=fix) from error


def make_proxy(ref: CodeRef, threads: int = 1, *, onednn: bool = True) -> Any:
    """Start the interpreter of a reference, make its model there, and return the module that stands for it.
    Raises BadRequest where the interpreter or the code cannot be used, StepFailed where the process ends."""
    if ref.python is None:
        raise ValueError(f"{ref.text} is of our own interpreter")
    if ref.file and not ref.file.is_file():
        fix = "check the path; it starts at the folder you run transload in"
        raise BadRequest(f"no such file: {ref.file}", fix=fix)
    process = UserProcess(ref.python, threads, onednn=onednn)
    try:
        return make_there(process, ref)
    except BaseException:
        process.close()
        raise


def make_there(process: UserProcess, ref: CodeRef) -> Any:
    """Make the model of a reference in an interpreter that runs, and return the module that stands for it."""
    module = None if ref.file else ref.place
    code: dict[str, Any] = {
        "file": str(ref.file) if ref.file else None,
        "module": module,
        "name": ref.name,
        "root": ref.root,
    }
    code |= {"settings": ref.settings, "recorded": plain_settings(ref.recorded)}
    record, _ = process.ask("build", stage=f"making the model {ref.text}", code=code)
    description = ModuleDescription.of(record)
    module_class = _module_class()
    own = type(description.name, (module_class,), {"forward": _forward_as(module_class.call_there, description)})
    stand_in = own(process, description)
    for note in description.notes:
        add_note(stand_in, note)
    return stand_in


def _forward_as(function: Any, description: ModuleDescription) -> Any:
    """Return a forward that inspect sees with the parameters of the user's own."""

    def forward(self: Any, *arguments: Any, **keywords: Any) -> Any:
        return function(self, *arguments, **keywords)

    forward.__signature__ = description.signature()  # type: ignore[attr-defined]
    return forward


def is_proxy(module: object) -> bool:
    """Return whether a module stands for one in another interpreter."""
    return isinstance(getattr(module, "process", None), UserProcess)


def open_user_python(folder: Path, source: Source, threads: int, *, onednn: bool = True) -> tuple[torch.nn.Module, Any]:
    """Return the module of a source by its inputs' positions, and the module that stands for the user's own.
    It has the source's weights, float32 where they are of half precision."""
    module = make_proxy(source.ref, threads, onednn=onednn)
    call = None if source.call is None else Call.from_json(source.call)
    return with_weights_there(module, folder, call), module


def with_weights_there(module: Any, folder: Path, call: Call | None) -> torch.nn.Module:
    """Put the weights in a source's folder into the user's module, in float32, and return it as it is called.
    Buffers that forward writes to stay as they are: no answer depends on them."""
    if (folder / WEIGHTS).exists():
        module.load_state_dict(read_weights(folder / WEIGHTS))
    module.widen_halves()
    if call is None:
        own: torch.nn.Module = module
        return own
    return flat(module, Call(call.inputs, call.arguments, call.keywords, call.outputs))


def check_proxy(module: Any) -> None:
    """Raise BadRequest for a module with quantised parts, or with weights that have no shape or no values."""
    description: ModuleDescription = module.description
    if description.lazy:
        raise BadRequest(
            f"{description.lazy[0]} takes its shape at the model's first call, and there has been none",
            fix="call the model once in the function that makes it, or give that layer its sizes",
        )
    if description.meta:
        raise BadRequest(
            f"{description.meta[0]} has no values: it is on the meta device",
            fix="make the model on the CPU, with its weights",
        )
    parts = [kind for kind in description.modules if kind.startswith(QUANTISED)]
    if parts or description.quantized:
        kind = parts[0] if parts else f"quantised weight {description.quantized[0]}"
        raise BadRequest(
            f"the model is quantised: it has a {kind}, which no format here carries",
            fix="give the model as it was before it was quantised, and name the precision of the target, as in "
            "onnx:int8",
        )


def example_of_proxy(module: Any) -> Example | None:
    """Return the example inputs that the code has; None where it has none."""
    value, tensors = module.process.ask("example", stage="asking for its example inputs")
    if value is None:
        return None
    return parse_example(_decoded(value["inputs"], tensors), module, str(value["origin"]))


class ProxyState:
    """What a module keeps between calls, as the other interpreter sees it (module_checks.ModuleState)."""

    def changed(self, module: Any) -> list[str]:
        """Return the names of tensors that calls have changed.
        Raises BadRequest where forward has put a part into training mode."""
        value, _ = module.process.ask("changed", stage="looking at what the model keeps")
        if value["training"]:
            raise BadRequest(
                f"forward puts {value['training'][0]} back into training mode",
                fix="remove that call: a model that is converted is in eval mode",
            )
        return [str(name) for name in value["tensors"]]


def _decoded(document: Any, tensors: list[torch.Tensor]) -> Any:
    try:
        return decode_tree(document, tensors)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise StepFailed("the other interpreter answered with something that is no value", fix="see the log") from error


def _call_there(process: UserProcess, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    tensors: list[torch.Tensor] = []
    trees = {"arguments": encode_tree(arguments, tensors), "keywords": encode_tree(keywords, tensors)}
    value, answers = process.ask("call", tensors, stage="calling the model", call=True, **trees)
    return _decoded(value["result"], answers)


@cache
def _module_class() -> Any:
    import torch

    class ModuleProxy(torch.nn.Module):
        """Its weights lie in the other interpreter, and are fetched when they are asked for."""

        def __init__(self, process: UserProcess, description: ModuleDescription) -> None:
            super().__init__()
            self.process, self.description = process, description
            self.training = False

        def call_there(self, *arguments: Any, **keywords: Any) -> Any:
            """Return what the user's module returns; its errors are of the classes that were raised there."""
            return _call_there(self.process, arguments, keywords)

        def state_dict(self, *_: object, **__: object) -> Any:
            """Return the user's state dict."""
            value, tensors = self.process.ask("state", stage="reading the model's weights")
            return dict(zip(map(str, value["names"]), tensors, strict=True))

        def load_state_dict(self, state_dict: Mapping[str, Any], *_: bool, **__: bool) -> Any:
            """Put a state dict into the user's module, whole."""
            stage = "putting weights into the model"
            tensors: list[torch.Tensor] = [*state_dict.values()]
            self.process.ask("load", tensors, stage=stage, names=[*state_dict])

        def widen_halves(self) -> None:
            """Make half-precision weights float32 there."""
            self.process.ask("widen_halves", stage="widening the model's weights")

        def widen(self, noise: float, seed: int) -> None:
            """Answer in float64 from now on."""
            self.process.ask("widen", stage="widening the model to float64", noise=noise, seed=seed)

        def named_buffers(self, *_: object, **__: object) -> Iterator[tuple[str, torch.Tensor]]:
            """Yield the names of its buffers."""
            return ((name, torch.empty(0, device="meta")) for name in self.description.buffers)

        def parameters(self, recurse: bool = True) -> Iterator[torch.nn.Parameter]:
            """Yield the shapes of its matrices: tables, by which the range of indices is looked for."""
            shapes = (torch.empty(rows, 1, device="meta") for rows in self.description.tables if recurse)
            return (torch.nn.Parameter(shape, requires_grad=False) for shape in shapes)

    return ModuleProxy


def half_dtypes(state: Mapping[str, torch.Tensor]) -> dict[str, torch.dtype]:
    """Return the dtypes of half-precision weights by name."""
    return {name: tensor.dtype for name, tensor in state.items() if str(tensor.dtype) in _HALVES}
