"""What works on this machine, what closes the rest, and what opens it. Looks at files; imports no framework.

A finding is `ok`, `note` (something optional is not there), `warn` (it works, and not as tested) or `fail` (the default
run cannot work).
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from ...converters import third_party
from ...converters.steps import Step
from ...models.errors import Exit
from ...models.formats import Target, parse_target
from ...serving.runtimes.runtime_table import RUNTIMES
from ..request import ALL_TARGETS
from ..workers.devices import list_gpus
from ..workers.interpreters import lacking

PYTHONS = ((3, 11), (3, 12), (3, 13))
TESTED_PYTHON = (3, 11)
LEAST_FREE_BYTES = 2_000_000_000  # a run of the digits recipe with all targets takes a tenth of it
EXTRAS = ("cpu", "gpu", "models", "dev")
MENDS = {"cpu": "make setup", "gpu": "make setup EXTRAS=gpu,dev", "models": "make setup", "dev": "make setup"}
TFSERVING = "tensorflow_model_server"


class State(StrEnum):
    """Of a finding; `fail` decides the exit status."""

    OK = "ok"
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `fix` is there where something can be mended."""

    part: str  # "python", "libraries", "devices", "steps", "runtimes", "store", "serving"
    name: str
    state: State
    text: str
    fix: str | None = None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _requirements() -> list[str] | None:
    try:
        return metadata.requires("transload")
    except metadata.PackageNotFoundError:
        return None


def _free_bytes(path: Path) -> int:
    return shutil.disk_usage(path).free


def _onnxruntime_folder() -> Path | None:
    """Where the package lies, without importing it."""
    spec = find_spec("onnxruntime")
    return Path(spec.origin).parent if spec and spec.origin else None


@dataclass(frozen=True)
class Machine:
    """Everything that the checks ask the machine for, handed in so that a test can be any machine."""

    python: tuple[int, int, int] = sys.version_info[:3]
    version: Callable[[str], str | None] = _version
    requirements: Callable[[], Iterable[str] | None] = _requirements
    find: Callable[[str], object | None] = find_spec
    gpus: Callable[[], tuple[str, ...]] = list_gpus
    onnxruntime_folder: Callable[[], Path | None] = _onnxruntime_folder
    which: Callable[[str], str | None] = shutil.which
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    free_bytes: Callable[[Path], int] = _free_bytes


def examine(store: Path, machine: Machine | None = None) -> tuple[Finding, ...]:
    """Look at everything, in the order of `Finding.part`."""
    here = machine or Machine()
    return (
        *_python(here),
        *_libraries(here),
        *_onnxruntime_builds(here),
        *_devices(here),
        *_steps(here),
        *_runtimes(here),
        *_store(here, store),
        *_tfserving(here),
    )


def exit_code(findings: Iterable[Finding]) -> Exit:
    """PASS where the default run can work, else USAGE: something is missing."""
    return Exit.USAGE if any(each.state is State.FAIL for each in findings) else Exit.PASS


def _python(here: Machine) -> Iterable[Finding]:
    version = ".".join(map(str, here.python))
    if here.python[:2] not in PYTHONS:
        yield Finding("python", version, State.FAIL, "3.11, 3.12 or 3.13 is needed", "make setup PYTHON=python3.11")
    elif here.python[:2] != TESTED_PYTHON:
        yield Finding("python", version, State.NOTE, f"works by its dependencies; tested is 3.11 ({sys.executable})")
    else:
        yield Finding("python", version, State.OK, f"{platform.python_implementation()} at {sys.executable}")


def _libraries(here: Machine) -> Iterable[Finding]:
    """Every library that pyproject.toml asks for: there or not, and in the tested range or not."""
    wanted = here.requirements()
    if wanted is None:
        yield Finding("libraries", "transload", State.WARN, "not installed: versions are not checked", "make setup")
        return
    absent: dict[str, list[str]] = {}
    for requirement in _each_once(wanted):
        extra = next((each for each in EXTRAS if f'extra == "{each}"' in str(requirement.marker or "")), "")
        version = here.version(requirement.name)
        if version is None:
            absent.setdefault(extra, []).append(requirement.name)
        elif extra and not requirement.specifier:
            continue
        else:
            yield _installed(requirement, version)
    for name in absent.get("", ()):
        yield Finding("libraries", name, State.FAIL, "not installed", "make setup")
    for extra in ("gpu", "models", "dev"):
        if extra in absent:
            yield Finding(
                "libraries", f"extra {extra}", State.NOTE, f"without {', '.join(absent[extra])}", MENDS[extra]
            )


def _each_once(wanted: Iterable[str]) -> Iterable[Requirement]:
    """The extra dev has what models has: a library counts for the first extra that names it."""
    found: dict[str, Requirement] = {}
    for requirement in map(Requirement, wanted):
        found.setdefault(requirement.name, requirement)
    return found.values()


def _installed(requirement: Requirement, version: str) -> Finding:
    if requirement.specifier.contains(version, prereleases=True):
        return Finding("libraries", requirement.name, State.OK, version)
    return Finding(
        "libraries",
        requirement.name,
        State.WARN,
        f"{version}, and {requirement.specifier} is what is tested",
        "make setup",
    )


def _onnxruntime_builds(here: Machine) -> Iterable[Finding]:
    """The CPU and the GPU build are two distributions with the same files: the one installed last has overwritten the
    other, and pip doesn't say so."""
    cpu, gpu = here.version("onnxruntime"), here.version("onnxruntime-gpu")
    name, gpus = "onnxruntime build", here.gpus()
    again = "pip uninstall -y onnxruntime onnxruntime-gpu, then make setup" + (" EXTRAS=gpu,dev" if gpus else "")
    folder = here.onnxruntime_folder()
    cuda = folder is not None and (folder / "capi" / "libonnxruntime_providers_cuda.so").is_file()
    if cpu and gpu:
        yield Finding("libraries", name, State.FAIL, "onnxruntime and onnxruntime-gpu overwrite each other", again)
    elif gpu and not cuda:
        yield Finding("libraries", name, State.FAIL, "onnxruntime-gpu has lost its CUDA provider library", again)
    elif cpu and gpus:
        yield Finding("libraries", name, State.WARN, "the CPU build, and a GPU is here", MENDS["gpu"])
    elif cpu or gpu:
        yield Finding("libraries", name, State.OK, "GPU" if gpu else "CPU")


def _devices(here: Machine) -> Iterable[Finding]:
    yield Finding("devices", "cpu", State.OK, f"{len(os.sched_getaffinity(0))} cores")
    for at, name in enumerate(here.gpus()):
        yield Finding("devices", f"cuda:{at}", State.OK, name)
    if not here.gpus():
        yield Finding("devices", "cuda", State.NOTE, "no NVIDIA GPU is here (asked nvidia-smi)")


def _steps(here: Machine) -> Iterable[Finding]:
    """Each step, open or closed; and each target of the default run that no open steps lead to."""
    open_steps = []
    known = third_party.known_steps()
    for step in known.steps:
        closed = lacking(step, here.find)
        if closed is None:
            open_steps.append(step)
        label = f"{step.source or 'source'} -> {step.target} ({step.name})"
        yield Finding(
            "steps", label, State.NOTE if closed else State.OK, closed or "open", _step_mend(step) if closed else None
        )
    for why in known.refused:
        yield Finding("steps", "of a third party", State.WARN, why, "ask its author, or uninstall it")
    reached: set[Target | None] = {None}
    while more := {step.target for step in open_steps if step.source in reached} - reached:
        reached |= more
    for target in map(parse_target, ALL_TARGETS):
        if target not in reached:
            yield Finding("steps", f"target {target}", State.FAIL, "no open step leads to it", "make setup")


def _step_mend(step: Step) -> str:
    if step.package:
        return f"install what {step.package} needs"
    return f"{step.environment.guide} shows how" if step.environment else "make setup"


def _runtimes(here: Machine) -> Iterable[Finding]:
    """A run leaves out no runtime by itself: one that is closed closes the default run."""
    for runtime in RUNTIMES.values():
        closed = lacking(runtime, here.find)
        if closed and runtime.environment:
            yield Finding("runtimes", runtime.name, State.NOTE, closed, f"{runtime.environment.guide} shows how")
        elif closed:
            yield Finding("runtimes", runtime.name, State.FAIL, closed, "make setup")
        else:
            yield Finding("runtimes", runtime.name, State.OK, f"open for {', '.join(runtime.takes)}")


def _store(here: Machine, store: Path) -> Iterable[Finding]:
    place = store.absolute()
    there = next(each for each in (place, *place.parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield Finding("store", str(place), State.FAIL, "cannot be written to", "name another folder with --store")
        return
    free = here.free_bytes(there)
    text = f"{free / 1e9:.1f} GB free"
    if free < LEAST_FREE_BYTES:
        yield Finding("store", str(place), State.WARN, text, "free some space, or name a folder elsewhere with --store")
    else:
        yield Finding("store", str(place), State.OK, text)


def _tfserving(here: Machine) -> Iterable[Finding]:
    """The real TensorFlow Serving where there is one; the embedded server speaks its API otherwise."""
    named = here.environ.get("TRANSLOAD_TFSERVING_BIN")
    if named and not here.which(named):
        yield Finding(
            "serving", TFSERVING, State.FAIL, f"TRANSLOAD_TFSERVING_BIN names {named}, which does not run",
            "unset it, or name the program",
        )  # fmt: skip
    elif found := named or here.which(TFSERVING):
        yield Finding("serving", TFSERVING, State.OK, found)
    else:
        yield Finding("serving", TFSERVING, State.NOTE, "not here: the embedded server answers in its place")
