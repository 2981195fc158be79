"""The tunable settings of each runtime, as data: names, defaults, accepted values, and those that a search tries.

A session takes each setting as a keyword of its name; `threads` is the argument that every entry has. A runtime without
a row here has no settings, and needs none. Imports no framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ...models.errors import BadRequest

Value: TypeAlias = bool | int | str
THREADS = "threads"
MOST_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a runtime."""

    name: str
    default: Value
    values: tuple[Value, ...]  # that a session accepts; of `threads` none is listed: any number from 1
    tried: tuple[Value, ...] = ()  # by the search, beside the default
    exact: bool = False  # every operator computes the same in the same order: answers cannot change
    devices: tuple[str, ...] = ("cpu",)  # where the search tries it
    variable: str = ""  # of the environment that the library reads it from, once, as it is imported

    def accepts(self, value: object) -> bool:
        """Return whether a session takes this value; True is no number here."""
        if self.name == THREADS:
            return type(value) is int and 1 <= value <= MOST_THREADS
        return any(type(value) is type(known) and value == known for known in self.values)

    def candidates(self, device: str, cores: int) -> tuple[Value, ...]:
        """Return what the search tries beside the default on this device, with so many cores."""
        if device.partition(":")[0] not in self.devices:
            return ()
        if self.name == THREADS:
            return tuple(dict.fromkeys([*(2**power for power in range(cores.bit_length())), cores]))
        return self.tried


def _switch(name: str, *, default: bool, tried: bool = True, exact: bool = False) -> Setting:
    return Setting(name, default, (False, True), (not default,) if tried else (), exact=exact)


# A sum may be split between threads, so its last bits may change.
_THREADS = Setting(THREADS, 1, ())
_BOTH = ("cpu", "cuda")
_LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_LAYOUT", "ORT_ENABLE_ALL")

SPACES: Mapping[str, tuple[Setting, ...]] = {
    "torch": (
        _THREADS,
        _switch("channels_last", default=False),
        _switch("onednn", default=True),
    ),
    "torchscript": (
        _THREADS,
        _switch("freeze", default=True),
        _switch("optimise", default=True, tried=False),  # locate turns it off; it makes nothing faster
        _switch("optimize_for_inference", default=False),
        _switch("channels_last", default=False),
        _switch("onednn_fusion", default=False),
    ),
    "onnxruntime": (
        _THREADS,
        Setting("level", "ORT_ENABLE_ALL", _LEVELS, ("ORT_ENABLE_EXTENDED", "ORT_ENABLE_BASIC"), devices=_BOTH),
        Setting("execution_mode", "ORT_SEQUENTIAL", ("ORT_SEQUENTIAL", "ORT_PARALLEL"), ("ORT_PARALLEL",), exact=True),
        _switch("allow_spinning", default=True, exact=True),
        Setting("dynamic_block_base", 0, (0, 1, 2, 4, 8), (4,)),
        _switch("denormal_as_zero", default=False),
        _switch("io_binding", default=False, exact=True),
        _switch("exact_bytes", default=False, tried=False),  # see REFERENCE; slower without VNNI, no difference with it
    ),
    "tensorflow": (
        _THREADS,
        Setting("inter_threads", -1, (-1, 1, 2, 4), (2,), exact=True),  # -1: in the caller's thread
        Setting(
            "onednn", "default", ("default", "on", "off"), ("on", "off"), variable="TF_ENABLE_ONEDNN_OPTS"
        ),
    ),
    "tflite": (
        _THREADS,
        Setting(
            "kernels", "AUTO", ("AUTO", "BUILTIN", "BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"),
            ("BUILTIN_WITHOUT_DEFAULT_DELEGATES",),
        ),
        _switch("xnnpack_latest", default=False),
        _switch("delegate_clustering", default=True, exact=True),
    ),
    "tflite-flex": (_THREADS,),
    "keras": (_THREADS,),
}  # fmt: skip

# Of the session that answers for the model itself. On processors without VNNI, ONNX Runtime adds two products of bytes
# in 16 bits, which saturate, unless it is asked for exact ones.
REFERENCE: Mapping[str, Mapping[str, Value]] = {"onnxruntime": {"exact_bytes": True}}


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """Settings of one runtime that differ from its defaults, checked when made.
    Raises BadRequest where the runtime has no such setting, or does not take the value."""

    runtime: str
    values: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = {setting.name: setting for setting in SPACES.get(self.runtime, ())}
        for name, value in self.values.items():
            if name not in known:
                fix = f"use {', '.join(known)}" if known else "leave it out: it has no settings"
                raise BadRequest(f"{self.runtime} has no setting {name!r}", fix=fix)
            if not known[name].accepts(value):
                values = ", ".join(map(str, known[name].values)) or f"a whole number from 1 to {MOST_THREADS}"
                raise BadRequest(f"{self.runtime} takes no {name}={value!r:.60}", fix=f"use {values}")

    def threads(self, otherwise: int) -> int:
        """Return the number of threads: that of the settings, else of the request."""
        return int(self.values.get(THREADS, otherwise))

    @property
    def keywords(self) -> dict[str, Value]:
        """The arguments of the runtime's entry, beside its threads."""
        return {name: value for name, value in self.values.items() if name != THREADS}

    @property
    def needs_new_process(self) -> bool:
        """Whether the library must not have been imported before."""
        return any(setting.variable and setting.name in self.values for setting in SPACES.get(self.runtime, ()))


def settings_text(settings: Mapping[str, Value]) -> str:
    """Return settings as a person reads them: `threads=2 io_binding=true`; "default" where there is none."""
    words = [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in settings.items()]
    return " ".join(words) or "default"
