"""Cases that a model's whole intake reads: the code that commands use, with workers, walls and limits.

The workers are forked from processes that have their libraries loaded, one for each kind of file. The product has such
processes for torch and TensorFlow; those for ONNX, TFLite and protobuf are the same mechanism with other modules.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from byte_mutations import mutate_bytes, mutate_encoded_text, mutate_json, mutate_protobuf
from case_process import Outcome, describe, fault_of, rng_of
from container_mutations import mutate_safetensors
from readers import (
    IN_SAVED_MODEL,
    mutate_archive,
    mutate_arrays,
    mutate_keras,
    mutate_tables,
    mutated,
    mutated_folder,
)

_READERS = "transload.converters.readers"
_PT2, _SCRIPT = f"{_READERS}.pt2.pt2_reader", f"{_READERS}.torchscript.torchscript_reader"
_TORCH = (
    "torch",
    _PT2,
    _SCRIPT,
    "torch.export.pt2_archive._package",
    "torch._dynamo",
    "transload.models.loading.build",
)
_LOAD_S = 3.0  # for each module, before the first case


@dataclass(frozen=True)
class Intake:
    """A kind of file: its seeds, how a case is written, how a command names it, and what its fork server loads."""

    name: str
    seeds: str  # the framework that wrote them
    write: Callable[[random.Random, Path, Path], None]
    modules: tuple[str, ...]
    text: str = ""  # the MODEL argument, `*` for the case's file
    words: tuple[str, ...] = ()  # further words of the command line
    share: int = 10
    data: bool = False  # the file is data, and no model


def _hf_folder(rng: random.Random, seeds: Path, folder: Path) -> None:
    """Write a folder of transformers, its configuration or its weights changed."""
    copy = folder / "file"
    shutil.copytree(seeds / "transformers", copy)
    name, mutation = rng.choice((("config.json", mutate_json), ("config.json", mutate_json),
                                 ("model.safetensors", mutate_safetensors)))  # fmt: skip
    (copy / name).write_bytes(mutation(rng, (copy / name).read_bytes()))


def _with_net(write: Callable[[random.Random, Path, Path], None]) -> Callable[[random.Random, Path, Path], None]:
    def both(rng: random.Random, seeds: Path, folder: Path) -> None:
        from tests.hostile.corpus.case import NET

        (folder / "net.py").write_text(NET)
        write(rng, seeds, folder)

    return both


_X = ("--input", "x=float32[batch,4]")
INTAKES = (
    Intake("intake pt2", "torch", mutated("good.pt2 contract.pt2", mutate_archive), _TORCH, "*"),
    Intake("intake TorchScript", "torch", mutated("good.pt", mutate_archive), _TORCH, "*", _X),
    Intake("intake onnx", "plain", mutated("good.onnx contract.onnx external.onnx", mutate_protobuf, "", "w.bin"),
           ("onnx", f"{_READERS}.onnx.onnx_reader", "onnxruntime", "onnx.shape_inference"), "*"),
    Intake("intake tflite", "tensorflow", mutated("good.tflite contract.tflite", mutate_tables),
           ("ai_edge_litert.interpreter", f"{_READERS}.tflite.tflite_reader"), "*"),
    Intake("intake SavedModel", "tensorflow", mutated_folder("saved saved saved served", IN_SAVED_MODEL),
           ("tensorflow", f"{_READERS}.saved_model.saved_model_reader", "google.protobuf.message"), "*"),
    Intake("intake keras", "tensorflow", mutated("good.keras deep.keras", mutate_keras),
           ("keras", "tensorflow", f"{_READERS}.keras.keras_reader"), "*", (), 5),
    Intake("intake h5", "tensorflow", mutated("model.h5", mutate_bytes, "file.keras"),
           ("keras", "tensorflow", f"{_READERS}.keras.keras_reader"), "*", (), 1),
    Intake("intake checkpoint", "torch", _with_net(mutated("weights.pt lightning.ckpt", mutate_archive)), _TORCH,
           "net.py:Net", ("--weights", "*", *_X), 5),
    Intake("intake safetensors", "torch", _with_net(mutated("weights.safetensors", mutate_safetensors)), _TORCH,
           "net.py:Net", ("--weights", "*", *_X), 5),
    Intake("intake transformers", "torch", _hf_folder, (*_TORCH, "transformers"),
           "hf:*", (), 1),
    Intake("intake npz data", "plain", mutated("arrays.npz packed.npz", mutate_arrays),
           ("numpy", "transload.models.data_sources.take_samples"), "*", (), 5, data=True),
    Intake("intake csv data", "plain", mutated("table.csv", mutate_encoded_text),
           ("pyarrow", "transload.models.data_sources.take_samples", "pyarrow.csv"), "*", (), 3, data=True),
)  # fmt: skip


class IntakeRunner:
    """Takes in the cases of one kind of file, as `convert` does."""

    def __init__(self, intake: Intake, seed: int, seeds: Path, folder: Path) -> None:
        from transload.models.store import Store
        from transload.pipeline.options.request import read_request
        from transload.pipeline.plan.context import Context
        from transload.pipeline.progress.progress import Progress
        from transload.pipeline.workers.engine import LocalExecutor
        from transload.pipeline.workers.fork_server import ForkServer
        from transload.pipeline.workers.isolation import Spawn, _environment

        self._intake, self._seed, self._seeds = intake, seed, seeds / intake.seeds
        self._folder, self._case = folder, folder / "case"
        self._run, self._private = folder / "run", folder / "private"
        for path in (self._case, self._run, self._private):
            path.mkdir(parents=True, exist_ok=True)
        os.environ.update(TMPDIR=str(self._private), HOME=str(self._private))
        os.chdir(self._case)
        self._store = Store(folder / "store")
        executor = LocalExecutor(self._store, self._run)
        self._context = Context(
            read_request(None, {}), executor, self._run, Progress(quiet=True), "cpu", os.cpu_count() or 1
        )
        environment = _environment(Spawn(Path(os.devnull), folder / "server", self._context.limits()))
        self._server = ForkServer(intake.modules, environment, folder / "server")
        executor._fork_server = lambda action: self._server  # type: ignore[method-assign]  # noqa: ARG005
        time.sleep(_LOAD_S * len(intake.modules))
        self._children = self._list_children()

    def run(self, number: int) -> tuple[Outcome, dict[str, Any]]:
        """Take a case in; return its outcome and what was found."""
        for path in (self._case, self._private):
            shutil.rmtree(path)
            path.mkdir()
        os.chdir(self._case)
        self._intake.write(rng_of(self._seed, self._intake.name, number), self._seeds, self._case)
        before = _listing(self._folder)
        outcome = Outcome.ACCEPTED
        details: dict[str, Any] = {}
        try:
            self._import_all()
        except BaseException as error:  # noqa: BLE001
            outcome, details = self._judge(error)
        for name in ("objects", "actions", "logs", "refusals"):  # what the command keeps on purpose
            shutil.rmtree(self._store.root / name, ignore_errors=True)
            (self._store.root / name).mkdir()
        left = [
            name
            for name in _listing(self._folder) - before
            if not name.startswith(("run/logs/", "run/repeat/", "store/users/"))
        ]
        children = self._list_children() - self._children
        if left or children:
            return Outcome.FINDING, {"error": f"left {left[:5]} {sorted(children)}", **details}
        return outcome, details

    def _import_all(self) -> None:
        from transload.models.data_sources.data_argument import parse_data
        from transload.models.signature import TensorSpec
        from transload.pipeline.plan.code_model import load_code
        from transload.pipeline.plan.data_step import samples_action
        from transload.pipeline.plan.file_model import load_file
        from transload.pipeline.plan.model_argument import ModelKind, ModelRequest, kind_of

        file = next(path.name for path in sorted(self._case.iterdir()) if path.name.startswith("file"))
        if self._intake.data:
            inputs = (TensorSpec("x", "float32", ("batch", 4)),)
            self._context.executor.perform(samples_action(self._context, parse_data(file), inputs))
            return
        context, request = self._requested(file)
        kind = kind_of(request.text)
        if kind is ModelKind.CODE:
            load_code(context, request)
        elif not isinstance(kind, ModelKind):
            load_file(context, request, kind)
        assert isinstance(request, ModelRequest)

    def _requested(self, file: str) -> tuple[Any, Any]:
        """Return the context and the request of a command line."""
        from dataclasses import replace

        from transload.pipeline.options.option_words import parse_inputs
        from transload.pipeline.options.request import read_request
        from transload.pipeline.plan.model_argument import ModelRequest

        words = [word.replace("*", file) for word in self._intake.words]
        options: Mapping[str, str] = dict(zip(words[::2], words[1::2], strict=True))
        context = self._context
        if weights := options.get("--weights"):
            request = read_request(None, {"model": {"recipe": self._intake.text, "weights": weights}})
            context = replace(context, request=request)
        inputs = parse_inputs([options["--input"]] if "--input" in options else [])
        return context, ModelRequest(self._intake.text.replace("*", file), inputs)

    def _judge(self, error: BaseException) -> tuple[Outcome, dict[str, Any]]:
        from transload.models.errors import StepFailed, StepOutOfMemory, StepTimeout, TransloadError

        if not isinstance(error, TransloadError):
            return Outcome.FINDING, describe(error)
        if fault := fault_of(error):
            return Outcome.FINDING, {"error": f"{fault}: {error.what!r:.200}"}
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, StepFailed):
            cause = cause.__cause__
        if cause is None:
            return Outcome.REFUSED, {}
        said = re.sub(r"\S*/case/\S*|0x[0-9a-f]+|\d{3,}", "*", cause.what)[:160]
        if isinstance(cause, StepTimeout | StepOutOfMemory):
            return Outcome.LIMIT, {"error": said}
        if cause.decided:
            return Outcome.FOREIGN, {"error": said, "where": self._raised_at()}
        return Outcome.DIED, {"error": said}

    def _raised_at(self) -> str:
        """Return where the worker's log says that an error was raised: the last line of ours, and the last of all."""
        logs = sorted((self._run / "logs").glob("*.log"), key=lambda path: path.stat().st_mtime)
        text = logs[-1].read_text(errors="replace") if logs else ""
        frames = re.findall(r'File "(.*)", line \d+, in (\S+)', text.rpartition("Traceback")[2])
        ours = [row for row in frames if "site-packages" not in row[0] and "/lib/python" not in row[0]]
        return " <- ".join(dict.fromkeys(f"{Path(file).name}:{name}" for file, name in (*frames[-1:], *ours[-1:])))

    def _list_children(self) -> set[int]:
        """Return the processes below this one, but those of the fork server that are ending."""
        from transload.pipeline.workers.guard import descendants

        children: set[int] = set()
        for _ in range(20):
            children = {pid for pid in descendants(os.getpid()) if not _is_ended(pid)}
            if not children - getattr(self, "_children", children):
                break
            time.sleep(0.01)
        return children


def _is_ended(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def _listing(folder: Path) -> set[str]:
    """Return the names of all files below a folder."""
    return {
        os.path.relpath(os.path.join(root, name), folder)  # noqa: PTH118
        for root, _, names in os.walk(folder)
        for name in names
    }
