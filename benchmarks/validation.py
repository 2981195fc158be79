"""What `transload validate` costs: memory by the length of the test set, and time beside running the models alone.

    python benchmarks/validation.py [memory | throughput | resnet50 ...] [--work FOLDER] [--out FILE.json]

memory      a small MLP's ONNX copy with 1,000, 100,000 and 1,000,000 samples: the largest step, and the command itself
throughput  both models over a test set, compared and not compared, alternating in one process; on both sides as many
            samples in a call as `validate` asks
resnet50    256 images, one command with three candidates, beside the four models that only answer, one thread each

Writes JSON with the machine in it; a part that is not named keeps its last figures.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from transload.models.dataset import Dataset, read_dataset, write_dataset
from transload.models.job import Job
from transload.models.probes.feeds import CallRows, make_feeds, most_per_call, samples_per_call
from transload.models.signature import Array, Signature
from transload.pipeline.drift.answer_shards import write_series
from transload.pipeline.drift.check import Check
from transload.pipeline.drift.metrics.metric_kinds import MetricChoice
from transload.pipeline.drift.numbers.error_profile import ErrorProfile
from transload.pipeline.drift.recorded_answers import ANSWERS, ReferenceRecord, write_record
from transload.pipeline.drift.sessions import open_session
from transload.pipeline.result.environment import describe_environment
from transload.serving.session import Session

RESULTS = Path(__file__).resolve().parent / "results" / "validation.json"
NETS = Path(__file__).resolve().parent / "speed" / "nets_torch.py"
TRANSLOAD = (sys.executable, "-P", "-m", "transload")
SAMPLES = (1_000, 100_000, 1_000_000)
MLP = """from torch import nn, manual_seed

def mlp():
    manual_seed(0)
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 10)).eval()
"""
THROUGHPUT = {"mlp": ("x=float32[batch,20]", 200_000), "digits_cnn": ("x=float32[batch,1,8,8]", 20_000)}
IMAGE = "image=float32[batch,3,224,224]"
CANDIDATES = {"torchscript": "torchscript", "onnx": "onnxruntime", "tflite": "tflite"}  # and the runtime of each
ROUNDS = 5


def main() -> int:
    """Measure what is asked, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=["memory", "throughput", "resnet50", []])
    parser.add_argument("--work", type=Path, help="kept, and its models are used again")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    parts: dict[str, Callable[[Path], Any]] = {
        "memory": measure_memory,
        "throughput": measure_throughput,
        "resnet50": measure_resnet50,
    }
    document = json.loads(options.out.read_text()) if options.out.is_file() else {}
    with tempfile.TemporaryDirectory() as scratch:
        work = (options.work or Path(scratch)).resolve()
        for part in options.parts or list(parts):
            (work / part).mkdir(parents=True, exist_ok=True)
            document[part] = {"load_before": os.getloadavg()[0], **parts[part](work / part)}
            document["environment"] = vars(describe_environment())
            options.out.write_text(json.dumps(document, indent=1) + "\n")
            print(json.dumps({part: document[part]}, indent=1))
    return 0


def run_command(folder: Path, *words: str) -> dict[str, Any]:
    """Run `transload` with the arguments `words` in a folder; return its times, and the memory of the command itself.
    CPU seconds are those of all its processes."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*TRANSLOAD, *words], cwd=folder, stdout=log, stderr=log)
        largest = 0
        while process.poll() is None:
            largest = max(largest, _high_water(process.pid))
            time.sleep(0.05)
    if process.returncode not in (0, 3):
        raise SystemExit((folder / "log").read_text())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": time.monotonic() - started, "cpu_s": cpu_s, "command_rss_bytes": largest}


def _high_water(pid: int) -> int:
    """Return the peak resident bytes of a process so far; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def convert(folder: Path, model: str, declared: str, targets: str) -> Path:
    """Convert a model where its copies do not lie in `folder` yet; return the folder of the copies."""
    copies = folder / "made"
    if not copies.is_dir():
        run_command(folder, "convert", model, "--input", declared, "--to", targets, "--out", "made", "--quiet")
    return copies


def measure_memory(folder: Path) -> dict[str, Any]:
    """Validate the copy of an MLP with test sets of several lengths."""
    (folder / "net.py").write_text(MLP)
    copy = convert(folder, "net.py:mlp", "x=float32[batch,20]", "onnx") / "onnx"
    rng = np.random.default_rng(0)
    rows = []
    for samples in SAMPLES:
        inputs = {"x": rng.normal(size=(samples, 20)).astype(np.float32)}
        write_dataset(folder / "test.npz", Dataset(inputs, rng.integers(10, size=samples)))
        del inputs
        known = set(folder.glob(".transload/actions/*.json"))
        words = ["--against", "net.py:mlp", "--input", "x=float32[batch,20]", "--data", "test.npz", "--metric"]
        row = run_command(folder, "validate", str(copy), *words, "accuracy", "--quiet")
        steps = [json.loads(path.read_text()) for path in {*folder.glob(".transload/actions/*.json")} - known]
        peaks = sorted((step["facts"]["peak_rss_bytes"] for step in steps), reverse=True)
        rows.append({"samples": samples, "largest_step_bytes": peaks[0], "steps_bytes": peaks, **row})
    return {"rows": rows}


class ModuleSession:
    """A PyTorch module that answers, as the reference does: the worker's session needs the store."""

    device = "cpu"

    def __init__(self, module: Any, signature: Signature) -> None:
        self.signature = signature
        self._module = module

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Call the module without gradients."""
        import torch

        with torch.inference_mode():
            (feed,) = feeds.values()
            return {self.signature.outputs[0].name: self._module(torch.from_numpy(feed)).numpy()}

    def close(self) -> None:
        """Nothing is held."""


def measure_throughput(folder: Path) -> dict[str, Any]:
    """Run two models over a test set, with and without recording and comparing their answers."""
    (folder / "net.py").write_text(MLP)
    return {"rows": [_throughput_of(folder, net, *THROUGHPUT[net]) for net in THROUGHPUT]}


def _throughput_of(folder: Path, net: str, declared: str, samples: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    source = folder / net
    source.mkdir(exist_ok=True)
    path = folder / "net.py" if net == "mlp" else NETS
    copy = convert(source, f"{path}:{net}", declared, "onnx") / "onnx"
    candidate = open_session("onnxruntime", copy, device="cpu", threads=1)
    shape = [size for size in candidate.signature.inputs[0].shape if isinstance(size, int)]
    x = np.random.default_rng(0).normal(size=(samples, *shape)).astype(np.float32)
    name = candidate.signature.inputs[0].name
    (source / "data").mkdir(exist_ok=True)
    write_dataset(source / "data" / "test.npz", Dataset({name: x}, np.arange(samples) % 10))
    sys.path.insert(0, str(path.parent))
    module = getattr(__import__(path.stem), net)()
    reference = ModuleSession(module, candidate.signature)
    data = read_dataset(source / "data" / "test.npz")
    calls = CallRows(samples, samples_per_call(data, most_per_call(candidate.signature)))

    def answer(session: Session) -> Any:
        return (session.run(make_feeds(data, rows, session.signature)) for rows in calls)

    def alone() -> None:
        for session in (reference, candidate):
            for _ in answer(session):
                pass

    def compared() -> None:
        write_series(source / ANSWERS, answer(reference))
        choice = MetricChoice(name="accuracy", output=candidate.signature.outputs[0].name, unit="share")
        inputs = {"artifact": copy, "data": source / "data", "reference": source}
        check = Check(Job(inputs, source, {"runtime": "onnxruntime", "metric": choice.to_json()}))
        assert (
            check.run(candidate, replace(check.whole_set(), errors=ErrorProfile(batched=True))).row["metric"]
            is not None
        )

    write_record(source, ReferenceRecord(candidate.signature, (), chunk=calls.batch))
    ratios = []
    for _ in range(ROUNDS):
        plain, both = _cpu_seconds(alone), _cpu_seconds(compared)
        ratios.append({"alone_s": plain, "compared_s": both, "throughput": plain / both})
    middle = statistics.median(ratio["throughput"] for ratio in ratios)
    return {"net": net, "samples": samples, "samples_per_call": calls.batch, "throughput": middle, "rounds": ratios}


def _cpu_seconds(work: Callable[[], object]) -> float:
    """Return the seconds of this process's work: on a machine with other users the wall clock tells of them."""
    started = time.process_time()
    work()
    return time.process_time() - started


def measure_resnet50(folder: Path) -> dict[str, Any]:
    """Validate three copies of ResNet-50 with 256 images, and run the four models alone."""
    copies = convert(folder, f"{NETS}:resnet50", IMAGE, ",".join(CANDIDATES))
    (folder / "data").mkdir(exist_ok=True)
    write_dataset(folder / "data" / "test.npz", Dataset({"image": _images(256)}))
    shutil.rmtree(folder / ".transload", ignore_errors=True)  # else the reference's answers are there
    words = ["--against", f"{NETS}:resnet50", "--input", IMAGE, "--data", "data/test.npz", "--quiet"]
    command = run_command(folder, "validate", *(str(copies / name) for name in CANDIDATES), *words)
    alone = {runtime: _alone(folder, runtime, copies / name) for name, runtime in CANDIDATES.items()}
    alone["torch"] = _alone(folder, "torch", copies / "torchscript")
    ratios = {
        f"ratio_{clock}": command[clock] / sum(row[clock] for row in alone.values()) for clock in ("wall_s", "cpu_s")
    }
    return {"images": 256, "candidates": len(CANDIDATES), "validate": command, "alone": alone, **ratios}


def _images(count: int) -> Array:
    """Cut pieces out of scikit-learn's two photographs, each with noise of its own."""
    from sklearn.datasets import load_sample_images

    rng = np.random.default_rng(0)
    images = np.empty((count, 3, 224, 224), np.float32)
    photographs = load_sample_images().images
    for at in range(count):
        photograph = photographs[at % len(photographs)]
        top, left = rng.integers(photograph.shape[0] - 224), rng.integers(photograph.shape[1] - 224)
        piece = photograph[top : top + 224, left : left + 224].transpose(2, 0, 1) / 255.0
        images[at] = (piece - 0.45) / 0.225 + rng.normal(0, 0.05, piece.shape)
    return images


def _alone(folder: Path, runtime: str, copy: Path) -> dict[str, float]:
    """Run one model over the images in a process of its own; return the seconds of its answers."""
    words = [sys.executable, __file__, "--alone", runtime, str(copy), str(folder / "data" / "test.npz")]
    done = subprocess.run(words, capture_output=True, check=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def answer_alone(runtime: str, copy: Path, path: Path) -> dict[str, float]:
    """Ask a model all samples of a file, one thread, as many in a call as `validate` asks."""
    session = _open_module(copy) if runtime == "torch" else open_session(runtime, copy, device="cpu", threads=1)
    data = read_dataset(path, session.signature.inputs)
    started, cpu = time.monotonic(), time.process_time()
    for rows in CallRows(len(data), samples_per_call(data, most_per_call(session.signature))):
        session.run(make_feeds(data, rows, session.signature))
    return {"wall_s": time.monotonic() - started, "cpu_s": time.process_time() - cpu}


def _open_module(copy: Path) -> Session:
    """Open ResNet-50 in PyTorch, with the signature of its copy."""
    import torch

    from transload.models.artifact import read_artifact

    torch.set_num_threads(1)
    sys.path.insert(0, str(NETS.parent))
    return ModuleSession(__import__(NETS.stem).resnet50(), read_artifact(copy).signature)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        print(json.dumps(answer_alone(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))))
        sys.exit(0)
    sys.exit(main())
