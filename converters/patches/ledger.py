"""The ledger of patches: every change to a third party's behaviour is one frozen record, `models/patch.py:Patch`.

How a module of this package declares its patches, and how they take effect:

* It imports no framework at its top, and ends with `PATCHES: tuple[Patch, ...]`, built by `swaps`, `translations`,
  `symbolics`, `handlers` (or `patches` for the other kinds) with `why`, `upstream`, `until`; by `missing_translations`
  and `missing_handlers` without, for operators that a library lacks. Names that share these share a call:
  `PATCHES = translations({"aten.mode.default": _mode}, why=..., upstream=..., until=...)`.
* `swaps(owner, {name: replacement})`: `replacement` maps the library's own value to the one that stands in its place
  (`always(value)` for a constant). `with swapped(PATCHES): ...` swaps all of them, or none, and restores them;
  `swap_for_good(PATCHES)` does not restore. A value that is known only at run time: `swapped([bound(PATCH, value)])`.
* `translations({"aten.mode.default": f})`: names below torch.ops, or Python's `math.floor`, `operator.mul`;
  `translation_table(PATCHES)` is the dynamo exporter's argument `custom_translation_table`.
* `symbolics({"aten::mode": f})`: registered by torch_shared/traced_symbolics.py:register.
* `handlers({"Erfc": f})`: names of TensorFlow's operators, or TFLite's as "TFL_GELU", in tf2onnx's tables.
* A name that its owner lacks raises MissingName before anything is swapped.

`all_patches()` gathers every PATCHES of this package and of models/. `python -m transload.converters.patches.ledger`
prints docs/patches.md. Each record has a canary under its `id` in tests/canaries, which shows that the unpatched
library is still wrong.
"""

from __future__ import annotations

import pkgutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from importlib import import_module
from types import ModuleType

from ...models.patch import TF2ONNX, Kind, Patch, patches

DYNAMO_EXPORTER, TORCHSCRIPT_EXPORTER = "torch.onnx.export(dynamo=True)", "torch.onnx.export(dynamo=False)"
swaps = partial(patches, Kind.SWAP)
translations = partial(patches, Kind.TRANSLATION, DYNAMO_EXPORTER)
missing_translations = partial(
    translations,
    why="torchlib has no translation of it",
    upstream="onnxscript/function_libs/torch_lib/ops",
    until="torchlib translates it",
)
symbolics = partial(patches, Kind.SYMBOLIC, TORCHSCRIPT_EXPORTER)
handlers = partial(patches, Kind.HANDLER, "tf2onnx", seen=TF2ONNX)
missing_handlers = partial(
    handlers,
    why="tf2onnx has no handler of it, and leaves TensorFlow's operator in the model",
    upstream="tf2onnx/onnx_opset",
    until="tf2onnx has a handler of it",
)
_IN_MODELS = (
    "models.loading.module_from_ref",
    "models.loading.torchvision_ops",
)  # models/ imports nothing of converters/
_NOTHING = object()


class MissingName(AttributeError):
    """A third party lacks a name that a patch swaps."""


def always(value: object) -> Callable[..., object]:
    """Return a replacement that is this value, whatever the library's own is."""
    return lambda _own: value


def bound(patch: Patch, value: object) -> Patch:
    """Return a patch whose replacement is a value that is known only at run time."""
    return replace(patch, replacement=always(value))


def owner_of(patch: Patch) -> object:
    """Return the module or class that a patch names as its owner."""
    return _resolved(patch.owner)


def _resolved(path: str) -> object:
    """Return what a dotted path names: a module, or an attribute of one."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value: object = import_module(".".join(parts[:count]))
        except ModuleNotFoundError as error:
            if not f"{path}.".startswith(f"{error.name}."):  # the module is there, and imports another that is not
                raise
            continue
        for part in parts[count:]:
            value = getattr(value, part)
        return value
    raise ModuleNotFoundError(path)


@contextmanager
def swapped(group: Iterable[Patch], inside: Iterable[ModuleType] | None = None) -> Iterator[None]:
    """Swap the names of a group of patches, and restore them at the end.

    `inside`: for functions of `builtins`, the modules that get the name in their place, unless they define it.

    Uses setattr, not torch.overrides.TorchFunctionMode, which would intercept every call that the model makes.
    """
    modules = None if inside is None else [*inside]
    restores = [
        (owner, patch.name, vars(owner).get(patch.name, _NOTHING), value)
        for patch, value in _values(group)
        for owner in ([owner_of(patch)] if modules is None else [m for m in modules if patch.name not in vars(m)])
    ]
    for owner, name, _, value in restores:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, own, _ in restores:
            if own is _NOTHING:  # inherited, or a built-in
                delattr(owner, name)
            else:
                setattr(owner, name, own)


def swap_for_good(group: Iterable[Patch]) -> None:
    """Swap the names of a group of patches for the rest of the process."""
    for patch, value in [*_values(group)]:
        setattr(owner_of(patch), patch.name, value)


def _values(group: Iterable[Patch]) -> Iterator[tuple[Patch, object]]:
    """Yield each patch with the value that takes the place of the library's own."""
    for patch in group:
        own = getattr(owner_of(patch), patch.name, _NOTHING)
        if own is _NOTHING:
            raise MissingName(f"{patch.owner} has no {patch.name}, which transload swaps; it was seen in {patch.seen}")
        yield patch, patch.replacement(own)


def translation_table(group: Iterable[Patch]) -> dict[Callable[..., object], Callable[..., object]]:
    """Return translations by the operators that the dynamo exporter looks up; a missing operator raises."""
    return {operator_named(patch.name): patch.replacement for patch in group}


def operator_named(name: str) -> Callable[..., object]:
    """Return an operator of torch.ops ("aten.mode.default"), or of Python ("math.floor")."""
    import torch

    module, *parts = name.split(".")
    start: object = import_module(module) if module in ("math", "operator") else getattr(torch.ops, module)
    try:
        operator: Callable[..., object] = reduce(getattr, parts, start)  # type: ignore[assignment]  # operators are
        return operator
    except AttributeError as error:
        raise MissingName(f"torch has no operator {name}, which transload translates") from error


def all_patches() -> tuple[Patch, ...]:
    """Return every record, in the order of the modules' names. Imports no framework."""
    root = str(__package__).partition(".")[0]
    package = import_module(f"{root}.converters.patches")
    names = sorted(module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
    modules = [import_module(name) for name in (*(f"{root}.{name}" for name in _IN_MODELS), *names)]
    return tuple(patch for module in modules for patch in vars(module).get("PATCHES", ()))


def document(records: Iterable[Patch]) -> str:
    """Return docs/patches.md: the records by kind, with those that have the same reason in one row."""
    tables: dict[Kind, dict[tuple[str, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for patch in records:
        reason = (patch.owner, patch.why, patch.upstream, patch.until, patch.seen)
        tables[patch.kind][reason].append(f"`{patch.name}`")
    lines = [*_HEADER]
    for kind in Kind:
        count = sum(map(len, tables[kind].values()))
        lines += ["", f"## {kind.value} ({count})", "", *_COLUMNS]
        lines += [
            f"| `{owner}` | {', '.join(names)} | {why} | {upstream} | {until} | {seen} |"
            for (owner, why, upstream, until, seen), names in tables[kind].items()
        ]
    return "\n".join(lines) + "\n"


_HEADER = (
    "# Patches",
    "",
    "Every change that transload makes to the behaviour of another library while it converts. Generated from the",
    "ledger: `python -m transload.converters.patches.ledger > docs/patches.md`. `make canaries` shows for each that",
    "the unpatched library is still wrong. CONTRIBUTING.md says how to move to another version.",
)
_COLUMNS = (
    "| owner | names | what the library does | upstream | unnecessary once | seen in |",
    "|---|---|---|---|---|---|",
)

if __name__ == "__main__":
    print(document(all_patches()), end="")
