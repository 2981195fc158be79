"""The command `doctor`: what works on this machine, and what is missing for the rest. It imports no framework.

A diagnosis is `ok`, `note` (something optional is missing), `warn` (it works, and not as tested) or `fail` (the default
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
from pathlib import Path

from packaging.requirements import Requirement

from ...converters.steps import Step
from ...converters.third_party import KNOWN_STEPS
from ...models.environments import find_installed
from ...models.errors import Exit
from ...models.formats import Target, parse_target
from ...models.processors import core_count, cpu_flags, saturates_bytes
from ...serving.runtimes.runtime_table import RUNTIMES, Runtime
from ..options.request import ALL_TARGETS
from ..plan.source_python import OURS, VARIABLE, project_interpreters
from ..workers.devices import list_gpus
from ..workers.extras import extras_for, install_command
from ..workers.interpreters import lacking
from ..workers.walls.namespaces import has_namespaces
from ..workers.walls.sandbox import LANDLOCK, SECCOMP, landlock_version, missing_walls

PYTHONS = ((3, 11), (3, 12), (3, 13))
TESTED_PYTHON = (3, 11)
LEAST_FREE_BYTES = 2_000_000_000  # a run of the digits recipe with all targets takes a tenth of it
EXTRAS = (
    "torch", "onnx", "tensorflow", "tflite", "serve", "gpu", "models", "openvino", "onnxruntime-openvino", "dev",
)  # fmt: skip
FIXES = {
    "gpu": "make setup EXTRAS=gpu,dev",
    "models": "make setup",
    "dev": "make setup",
    "openvino": "pip install 'openvino>=2025'",
    "onnxruntime-openvino": "pip install 'onnxruntime-openvino>=1.24' into an environment without onnxruntime",
}
TFSERVING = "tensorflow_model_server"


class State(StrEnum):
    """The state of a diagnosis; `fail` decides the exit status."""

    OK = "ok"
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The state of one part of the machine, with the fix where there is one."""

    part: str  # "python", "libraries", "devices", "sandbox", "steps", "runtimes", "store", "serving"
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
    return metadata.requires("transload") if _version("transload") else None


def _onnxruntime_folder() -> Path | None:
    """Return the folder of the package without importing it."""
    spec = find_installed("onnxruntime")
    return Path(spec.origin).parent if spec and spec.origin else None


@dataclass(frozen=True)
class Machine:
    """Everything that the checks read from the machine, so that a test can stand in for any machine."""

    python: tuple[int, int, int] = sys.version_info[:3]
    version: Callable[[str], str | None] = _version
    requirements: Callable[[], Iterable[str] | None] = _requirements
    find: Callable[[str], object | None] = find_installed
    gpus: Callable[[], tuple[str, ...]] = list_gpus
    onnxruntime_folder: Callable[[], Path | None] = _onnxruntime_folder
    which: Callable[[str], str | None] = shutil.which
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    landlock: Callable[[], int] = landlock_version
    missing_walls: Callable[[], tuple[str, ...]] = missing_walls
    has_namespaces: Callable[[], bool] = has_namespaces
    cpu_flags: Callable[[], frozenset[str]] = cpu_flags
    is_checkout: bool = (Path(__file__).parents[2] / "pyproject.toml").is_file()
    free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free


def examine(store: Path, machine: Machine | None = None) -> tuple[Diagnosis, ...]:
    """Check everything, in the order of `Diagnosis.part`."""
    here = machine or Machine()
    return (
        *_python(here),
        *_model_python(here),
        *_libraries(here),
        *_onnxruntime_builds(here),
        *_devices(here),
        *_sandbox(here),
        *_steps(here),
        *_runtimes(here),
        *_store(here, store),
        *_tfserving(here),
    )


def exit_code(diagnoses: Iterable[Diagnosis]) -> Exit:
    """Return PASS where the default run can work, else USAGE: something is missing."""
    return Exit.USAGE if any(diagnosis.state is State.FAIL for diagnosis in diagnoses) else Exit.PASS


def _python(here: Machine) -> Iterable[Diagnosis]:
    version = ".".join(map(str, here.python))
    if here.python[:2] not in PYTHONS:
        yield Diagnosis("python", version, State.FAIL, "3.11, 3.12 or 3.13 is needed", "make setup PYTHON=python3.11")
    elif here.python[:2] != TESTED_PYTHON:
        yield Diagnosis("python", version, State.NOTE, f"works by its dependencies; tested is 3.11 ({sys.executable})")
    else:
        yield Diagnosis("python", version, State.OK, f"{platform.python_implementation()} at {sys.executable}")


def _libraries(here: Machine) -> Iterable[Diagnosis]:
    """Check that every library of pyproject.toml is installed, and in the tested range."""
    wanted = here.requirements()
    if wanted is None:
        yield Diagnosis("libraries", "transload", State.WARN, "not installed: versions are not checked", "make setup")
        return
    absent: dict[str, list[str]] = {}
    for requirement in _first_of_each(wanted):
        extra = next((name for name in EXTRAS if f'extra == "{name}"' in str(requirement.marker or "")), "")
        version = here.version(requirement.name)
        if version is None:
            absent.setdefault(extra, []).append(requirement.name)
        elif requirement.specifier.contains(version, prereleases=True):
            if requirement.specifier or not extra:
                yield Diagnosis("libraries", requirement.name, State.OK, version)
        else:
            text = f"{version}, and {requirement.specifier} is what is tested"
            yield Diagnosis("libraries", requirement.name, State.WARN, text, _mend(here, extra or "all"))
    for name in absent.get("", ()):
        yield Diagnosis("libraries", name, State.FAIL, "not installed", _mend(here))
    for extra in ("torch", "onnx", "tensorflow", "tflite", "serve", "gpu", "models", "dev"):
        if extra in absent:
            text = f"without {', '.join(absent[extra])}"
            fix = FIXES[extra] if here.is_checkout and extra in FIXES else _mend(here, extra)
            yield Diagnosis("libraries", f"extra {extra}", State.NOTE, text, fix)


def _first_of_each(wanted: Iterable[str]) -> Iterable[Requirement]:
    """Return the requirements without those of extras on each other; dev repeats what models has."""
    first: dict[str, Requirement] = {}
    for requirement in map(Requirement, wanted):
        if requirement.name != "transload":
            first.setdefault(requirement.name, requirement)
    return first.values()


def _onnxruntime_builds(here: Machine) -> Iterable[Diagnosis]:
    """Check which build of ONNX Runtime is installed.
    The CPU and the GPU build are two distributions with the same files: the later one overwrites the other, and pip
    does not say so."""
    cpu, gpu, openvino = (here.version(f"onnxruntime{build}") for build in ("", "-gpu", "-openvino"))
    name, gpus = "onnxruntime build", here.gpus()
    again = "pip uninstall -y onnxruntime onnxruntime-gpu, then make setup" + (" EXTRAS=gpu,dev" if gpus else "")
    folder = here.onnxruntime_folder()
    cuda = folder is not None and (folder / "capi" / "libonnxruntime_providers_cuda.so").is_file()
    if openvino and (cpu or gpu):
        other = "onnxruntime" if cpu else "onnxruntime-gpu"
        text = f"{other} and onnxruntime-openvino overwrite each other"
        again = f"pip uninstall -y {other} onnxruntime-openvino, then install the one that you want"
        yield Diagnosis("libraries", name, State.FAIL, text, again)
    elif cpu and gpu:
        yield Diagnosis("libraries", name, State.FAIL, "onnxruntime and onnxruntime-gpu overwrite each other", again)
    elif gpu and not cuda:
        yield Diagnosis("libraries", name, State.FAIL, "onnxruntime-gpu has lost its CUDA provider library", again)
    elif cpu and gpus:
        yield Diagnosis("libraries", name, State.WARN, "the CPU build, and a GPU is here", FIXES["gpu"])
    elif cpu or gpu or openvino:
        yield Diagnosis("libraries", name, State.OK, "GPU" if gpu else "OpenVINO" if openvino else "CPU")


def _devices(here: Machine) -> Iterable[Diagnosis]:
    yield Diagnosis("devices", "cpu", State.OK, f"{core_count()} cores")
    if saturates_bytes(here.cpu_flags()):
        text = "none: ONNX Runtime saturates 8-bit weights of ONNX files here (onnx:int8 of transload has 7 bits)"
        yield Diagnosis("devices", "vnni", State.NOTE, text)
    for at, name in enumerate(here.gpus()):
        yield Diagnosis("devices", f"cuda:{at}", State.OK, name)
    if not here.gpus():
        yield Diagnosis("devices", "cuda", State.NOTE, "no NVIDIA GPU is here (asked nvidia-smi)")


_WITHOUT = {
    LANDLOCK: (
        "a file which gets past the checks can read and write what you can",
        "use Linux 5.13 or later with Landlock enabled, or take no files of strangers",
    ),
    SECCOMP: (
        "a file which gets past the checks can call what you can: trace other processes, open sockets",
        "use Linux with seccomp filters on x86_64 or aarch64, or take no files of strangers",
    ),
}


def _sandbox(here: Machine) -> Iterable[Diagnosis]:
    missing = here.missing_walls()
    for wall in (LANDLOCK, SECCOMP):
        if wall in missing:
            means, fix = _WITHOUT[wall]
            text = f"not sandboxed: there is no {wall} here, so that {means}; each verdict says so"
            yield Diagnosis("sandbox", wall, State.WARN, text, fix)
        else:
            version = f" (version {here.landlock()})" if wall == LANDLOCK else ""
            yield Diagnosis("sandbox", wall, State.OK, f"holds every worker{version}; docs/security.md")
    if here.has_namespaces():
        yield Diagnosis("sandbox", "namespaces", State.OK, "each worker has shared memory and interfaces of its own")
    else:
        text = "refused here: workers have no shared memory, so multiprocessing fails in them; all else holds"
        yield Diagnosis("sandbox", "namespaces", State.NOTE, text)


def _steps(here: Machine) -> Iterable[Diagnosis]:
    """Check the libraries of each step, and that open steps lead to each target of the default run."""
    open_steps = []
    for step in KNOWN_STEPS.values():
        label = f"{step.source or 'source'} -> {step.target} ({step.name})"
        if closed := lacking(step, here.find):
            yield Diagnosis("steps", label, State.NOTE, closed, _step_fix(here, step))
        else:
            if not step.user_framework:  # which needs another interpreter, and is no way to a target here
                open_steps.append(step)
            yield Diagnosis("steps", label, State.OK, "open")
    for why in KNOWN_STEPS.refused:
        yield Diagnosis("steps", "of a third party", State.WARN, why, "ask its author, or uninstall it")
    reached: set[Target | None] = {None}
    while more := {step.target for step in open_steps if step.source in reached} - reached:
        reached |= more
    for target in map(parse_target, ALL_TARGETS):
        if target not in reached:
            yield Diagnosis("steps", f"target {target}", State.FAIL, "no open step leads to it", _mend(here))


def _mend(here: Machine, *extras: str) -> str:
    """Return how libraries are installed here: in a checkout by its Makefile, which brings all."""
    return "make setup" if here.is_checkout else install_command(extras or ("all",))


def _step_fix(here: Machine, step: Step) -> str:
    if step.package:
        return f"install what {step.package} needs"
    if step.environment:
        return f"{step.environment.guide} shows how"
    return _mend(here, *extras_for(step.requires, here.find))


def _runtimes(here: Machine) -> Iterable[Diagnosis]:
    """Check the libraries of each runtime. A missing one fails the default run, which leaves out none by itself."""
    for runtime in RUNTIMES.values():
        closed = lacking(runtime, here.find)
        if closed and runtime.on_request and (fix := _runtime_fix(runtime)):
            yield Diagnosis("runtimes", runtime.name, State.NOTE, closed, fix)
        elif closed and runtime.environment:
            yield Diagnosis("runtimes", runtime.name, State.NOTE, closed, f"{runtime.environment.guide} shows how")
        elif closed:
            fix = _mend(here, *extras_for(runtime.requires, here.find))
            yield Diagnosis("runtimes", runtime.name, State.FAIL, closed, fix)
        else:
            yield Diagnosis("runtimes", runtime.name, State.OK, f"open for {', '.join(runtime.takes)}")


def _runtime_fix(runtime: Runtime) -> str:
    """Return how a person gets what a runtime lacks beside a plain installation; "" where it lacks none of that."""
    if runtime.extra:
        return FIXES[runtime.extra]
    return "install g++, or name another compiler in the variable CXX" if runtime.compiles else ""


def _model_python(here: Machine) -> Iterable[Diagnosis]:
    """Say which interpreter would be asked for a model of this folder, as far as that is seen without starting it."""
    named = here.environ.get(VARIABLE)
    near = named or next(map(str, project_interpreters(Path.cwd() / "net.py", here.environ)), None)
    if near and near != OURS:
        text = f"models of this folder are asked of {near}, where that has torch"
        yield Diagnosis("python", "models", State.NOTE, text, f"--python {OURS} turns this off (docs/environments.md)")


def _store(here: Machine, store: Path) -> Iterable[Diagnosis]:
    place = store.absolute()
    there = next(folder for folder in (place, *place.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield Diagnosis("store", str(place), State.FAIL, "cannot be written to", "name another folder with --store")
        return
    free = here.free_bytes(there)
    state, fix = State.OK, None
    if free < LEAST_FREE_BYTES:
        state, fix = State.WARN, "free some space, or name a folder elsewhere with --store"
    yield Diagnosis("store", str(place), state, f"{free / 1e9:.1f} GB free", fix)


def _tfserving(here: Machine) -> Iterable[Diagnosis]:
    """Check for a real TensorFlow Serving; without one the embedded server speaks its API."""
    named = here.environ.get("TRANSLOAD_TFSERVING_BIN")
    if named and not here.which(named):
        text = f"TRANSLOAD_TFSERVING_BIN names {named}, which does not run"
        yield Diagnosis("serving", TFSERVING, State.FAIL, text, "unset it, or name the program")
    elif program := named or here.which(TFSERVING):
        yield Diagnosis("serving", TFSERVING, State.OK, program)
    else:
        yield Diagnosis("serving", TFSERVING, State.NOTE, "not here: the embedded server answers in its place")
