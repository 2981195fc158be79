"""The ledger of patches: every change to a third party's behaviour is one frozen record, a `Patch`.

How a module of this package declares its patches, and how they take effect:

* It imports no framework at its top, and ends with `PATCHES: tuple[Patch, ...]`, built by `swaps`, `translations`,
  `symbolics`, `handlers`, `rewrites` (or `patches` for the other kinds) with `why`, `upstream`, `until`; by
  `missing_translations` and `missing_handlers` without, for operators that a library lacks. Names that share these
  share a call:
  `PATCHES = translations({"aten.mode.default": _mode}, why=..., upstream=..., until=...)`.
* `swaps(owner, {name: replacement})`: `replacement` maps the library's own value to the one that stands in its place
  (`always(value)` for a constant). `with swapped(PATCHES): ...` swaps all of them, or none, and restores them;
  `swap_for_good(PATCHES)` does not restore. A value that is known only at run time: `swapped([bound(PATCH, value)])`.
* `translations({"aten.mode.default": f})`: names below torch.ops, or Python's `math.floor`, `operator.mul`;
  `translation_table(PATCHES)` is the dynamo exporter's argument `custom_translation_table`.
* `symbolics({"aten::mode": f})`: registered by torch_onnx_torchscript/symbolics.py.
* `handlers({"Erfc": f})`: names of TensorFlow's operators, or TFLite's as "TFL_GELU", in tf2onnx's tables.
* A name that its owner lacks raises MissingName before anything is swapped.

`all_patches()` gathers every PATCHES of this package. `python -m transload.converters.patches.ledger` prints
docs/evidence/patches.md. Each record has a canary under its `id` in tests/canaries: the unpatched library is still
wrong.
"""

from __future__ import annotations

import pkgutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial, reduce
from importlib import import_module
from types import ModuleType

# The versions whose canaries were last seen to fail (`make canaries`).
TORCH, TRANSFORMERS = "torch 2.13.0", "transformers 5.23.0"
ONNXSCRIPT, TF2ONNX, ONNX_RUNTIME = "onnxscript 0.7.2", "tf2onnx 1.17.0", "onnxruntime 1.31.1"


class Kind(StrEnum):
    """How a patch takes effect. A swap's `replacement` maps the library's value to ours; any other's is ours itself."""

    SWAP = "Names swapped for a while"  # of a capture or an export
    TRACE = "Names swapped while a model is traced for torch's TorchScript exporter"
    PERMANENT = "Names swapped for good"  # for the rest of a worker process
    TRANSLATION = "Translations of torch's dynamo exporter"
    SYMBOLIC = "Symbolics of torch's TorchScript exporter"
    HANDLER = "Handlers of tf2onnx"
    REWRITE = "Rewrites of the model or the captured program"


@dataclass(frozen=True, slots=True)
class Patch:
    """One change to a third party's behaviour: `owner`.`name` does something else while the patch is applied."""

    kind: Kind
    owner: str  # the module, or a class in it, by its full name; or the table that the name is registered in
    name: str
    replacement: Callable[..., object]
    why: str  # what the unpatched library does
    upstream: str  # the issue, or the source line that is to blame
    until: str  # what would make the patch unnecessary
    seen: str  # library and version

    def __post_init__(self) -> None:
        missing = [field for field in ("owner", "name", "why", "upstream", "until", "seen") if not getattr(self, field)]
        if missing:
            raise ValueError(f"a patch must say its {', '.join(missing)}: {self.id}")

    @property
    def id(self) -> str:
        """What names the patch in docs/evidence/patches.md, and its canary in tests/canaries."""
        return f"{self.kind.name.lower()}:{self.owner}.{self.name}"


def patches(
    kind: Kind,
    owner: str,
    replacements: Mapping[str, Callable[..., object]],
    *,
    why: str,
    upstream: str,
    until: str,
    seen: str = TORCH,
) -> tuple[Patch, ...]:
    """Return one record for each name, with what they have in common."""
    return tuple(
        Patch(kind, owner, name, replacement, why, upstream, until, seen) for name, replacement in replacements.items()
    )


DYNAMO_EXPORTER, TORCHSCRIPT_EXPORTER = "torch.onnx.export(dynamo=True)", "torch.onnx.export(dynamo=False)"
swaps = partial(patches, Kind.SWAP)
translations = partial(patches, Kind.TRANSLATION, DYNAMO_EXPORTER)
missing_translations = partial(
    translations,
    why="torchlib has no translation of it",
    upstream="onnxscript/function_libs/torch_lib/ops",
    until="torchlib translates it",
)
rewrites = partial(patches, Kind.REWRITE)
RETIRED = "the TorchScript exporter is no longer used"
SYMBOLICS = "torch/onnx/_internal/torchscript_exporter/symbolic_opset9.py"
symbolics = partial(patches, Kind.SYMBOLIC, TORCHSCRIPT_EXPORTER, upstream=SYMBOLICS, until=RETIRED)
handlers = partial(patches, Kind.HANDLER, "tf2onnx", seen=TF2ONNX)
missing_handlers = partial(
    handlers,
    why="tf2onnx has no handler of it, and leaves TensorFlow's operator in the model",
    upstream="tf2onnx/onnx_opset",
    until="tf2onnx has a handler of it",
)
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
    """Return the module, or the attribute of one, that a patch names as its owner."""
    parts = patch.owner.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value: object = import_module(".".join(parts[:count]))
        except ModuleNotFoundError as error:
            if not f"{patch.owner}.".startswith(f"{error.name}."):
                raise  # the module is there, and imports another that is not
            continue
        for part in parts[count:]:
            value = getattr(value, part)
        return value
    raise ModuleNotFoundError(patch.owner)


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
    """Return the translations among some patches by the exporter's operators; a missing operator raises."""
    return {operator_named(patch.name): patch.replacement for patch in group if patch.kind is Kind.TRANSLATION}


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
    package = import_module(str(__package__))
    names = sorted(module.name for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
    return tuple(patch for name in names for patch in vars(import_module(name)).get("PATCHES", ()))


def document(records: Iterable[Patch]) -> str:
    """Return docs/evidence/patches.md: the records by kind, with those that have the same reason in one row."""
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
    "ledger: `python -m transload.converters.patches.ledger > docs/evidence/patches.md`. `make canaries` shows for",
    "each that the unpatched library is still wrong. CONTRIBUTING.md says how to move to another version.",
)
_COLUMNS = (
    "| owner | names | what the library does | upstream | unnecessary once | seen in |",
    "|---|---|---|---|---|---|",
)

if __name__ == "__main__":
    print(document(all_patches()), end="")
