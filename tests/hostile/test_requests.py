"""Wrong words, data that does not fit, and a machine that lacks something: one sentence, the mend, exit 2."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from .conftest import Ran, onnx_model, put
from .corpus.case import NET

FORMATS = "pt2, torchscript, onnx, saved-model, tflite"
RUNTIMES = (
    "torch, torchscript, onnxruntime, tensorflow, tflite, tflite-flex, keras, torch-compile, aotinductor, "
    "tensorflow-xla, openvino, onnxruntime-openvino, onnxruntime-tensorrt, tfserving-grpc, tfserving-rest, "
    "oip-grpc, oip-http"
)
MADE_BY = "make it with numpy.savez(FILE, INPUT_NAME=array, labels=array)"
CONVERT = ("convert", "m.onnx", "--to", "onnx", "--out", "out", "--quiet")
CODE = ("convert", "net.py:Net", "--to", "onnx", "--out", "out", "--quiet")
VALIDATE = ("validate", "m.onnx", "--against", "m.onnx", "--quiet")

WORDS: dict[tuple[str, ...], str] = {
    ("convert", "m.onnx", "--to", "onx", "--out", "out"): "unknown target 'onx': no format is called 'onx'"
    f"\n  fix: did you mean onnx? use one of {FORMATS}, with a precision behind a colon if need be "
    "('transload formats')",
    ("convert", "m.onnx", "--out", "out"): "no target is named"
    "\n  fix: name what to make, as in --to onnx,tflite ('transload formats')",
    ("convert", "m.onnx", "--to", "onnx"): "nothing says where to put what is made"
    "\n  fix: name a folder, as in --out converted",
    (*CONVERT, "--device", "gpu"): "the request: device: unknown device 'gpu'"
    "\n  fix: use auto, cpu, cuda or cuda:N",
    (*CONVERT, "--data", "none.npz"): "no such file: none.npz"
    "\n  fix: check --data; it names FILE.npz, a folder of images, FILE.csv, FILE.parquet or FILE.py:NAME "
    "(docs/data.md)",
    (*CONVERT, "--data", "name.npz"): "{here}/name.npz holds the arrays y, and the model takes the inputs x"
    "\n  fix: name the arrays as the inputs: numpy.savez(FILE, x=array)",
    (*CONVERT, "--data", "dtype.npz"): "the array x is of float64, and the input x=float32[batch,4] takes "
    "float32\n  fix: convert it where the samples are made, as in x=x.astype('float32')",
    (*CONVERT, "--data", "shape.npz"): "input x=float32[batch,4] got the shape [3,5]"
    "\n  fix: send x in the shape [batch,4]",
    (*CONVERT, "--data", "none_of_it.npz"): "{here}/none_of_it.npz holds no samples"
    "\n  fix: give at least one; more tell more",
    (*CONVERT, "--data", "objects.npz"): "{here}/objects.npz is not an .npz file of plain arrays: "
    f"it holds pickled objects\n  fix: {MADE_BY}",
    (*CONVERT, "--input", "z=float32[n,4]"): "the model takes the inputs x, and --input names z"
    "\n  fix: give each input of the model once, by its name, or leave --input out",
    (*CONVERT, "--input", "x=float64[n,4]"): "--input x=float64[n,4] does not fit the model, which takes "
    "x=float32[batch,4]\n  fix: write --input x=float32[batch,4]",
    (*CONVERT, "--input", "x=float32[n,5]"): "--input x=float32[n,5] does not fit the model, which takes "
    "x=float32[batch,4]\n  fix: write --input x=float32[batch,4]",
    (*CONVERT, "--input", "x:float32[n,4]"): "--input 'x:float32[n,4]' is not of the form NAME=DTYPE[dims]"
    "\n  fix: write it as in --input image=float32[batch,3,224,224] (docs/convert.md)",
    (*CONVERT, "--weights", "w.safetensors"): "m.onnx is no code, and has weights of its own"
    "\n  fix: leave --weights out",
    (*CODE, "--input", "x=float32[batch,4]", "--weights", "none.safetensors"): "no such file: {here}/none.safetensors"
    "\n  fix: check model.weights in the pipeline file, or --weights",
    (*CODE, "--input", "x=float32[batch,5]"): "calling net.py:Net raised RuntimeError at {here}/net.py:10: "
    "mat1 and mat2 shapes cannot be multiplied (2x5 and 4x3)"
    "\n  fix: hold --input x=float32[batch,5] against what forward takes, or mend that line",
    ("convert", "zoo:digits-cnn", *CONVERT[2:], "--input", "x=float32[batch,4]"): "zoo:digits-cnn "
    "is a recipe, and says what it takes\n  fix: leave --input out",
    (*VALIDATE, "--runtime", "nope"): f"unknown runtime 'nope'\n  fix: use one of {RUNTIMES}",
    (*VALIDATE, "--runtime", "tflite"): "none of the runtimes tflite takes onnx\n"
    "  fix: use onnxruntime, openvino, onnxruntime-openvino, onnxruntime-tensorrt, oip-grpc, oip-http",
    (*VALIDATE, "--batch", "0"): "'0' is no batch size\n  fix: use whole numbers from 1, as in --batch 1,8",
    ("validate", "net.py:Net", "--against", "m.onnx"): "net.py:Net is a model and no artifact"
    "\n  fix: convert it first: transload convert net.py:Net --to onnx --out DIR",
    ("validate", "m.onnx", "--against", "net.py:Net", "-q", "--input", "q=float32[batch,4]"): "m.onnx takes "
    "x=float32[batch,4], and net.py:Net takes q=float32[batch,4]"
    "\n  fix: name the model that the candidate was made from",
    ("bench", "net.py:Net"): "net.py:Net is a model and no artifact"
    "\n  fix: convert it first: transload convert net.py:Net --to onnx --out DIR",
    ("serve", "none"): "no such folder: none\n  fix: check the path",
    ("serve", "net.py"): "net.py is no artifact's folder"
    "\n  fix: convert it first: transload convert net.py --to onnx --out DIR, and serve DIR/onnx",
}  # fmt: skip


@pytest.fixture
def files(here: Path) -> Path:
    put(here / "m.onnx", onnx_model())
    (here / "net.py").write_text(NET)
    fine = np.ones((3, 4), np.float32)
    np.savez(here / "name.npz", y=fine)
    np.savez(here / "dtype.npz", x=fine.astype(np.float64))
    np.savez(here / "shape.npz", x=np.ones((3, 5), np.float32))
    np.savez(here / "none_of_it.npz", x=fine[:0])
    np.savez(here / "objects.npz", x=np.array([{}], dtype=object))
    return here


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_what_does_not_fit_is_refused_in_one_sentence(
    words: tuple[str, ...], files: Path, transload: Callable[..., Ran]
) -> None:
    status, out, err = transload(*words)
    assert err == f"error: {WORDS[words].format(here=files)}\n"
    assert (status, out) == (2, "")
    assert not (files / "runs").exists() or words[0] == "validate"


def test_cuda_where_there_is_none(files: Path, transload: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # no nvidia-smi: no driver
    status, _, err = transload(*CONVERT, "--device", "cuda")
    assert (status, err) == (
        2,
        "error: the device cuda was asked for and no NVIDIA GPU is here"
        "\n  fix: use --device cpu, or --device auto to take what there is\n",
    )


WITHOUT = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == {absent!r} else found(name, package)
from transload.pipeline.cli import main
sys.exit(main({words!r}))
"""
INSTALL = "pip install 'transload[{extra}]'"
GUIDE = "(docs/install.md)"
ABSENT: dict[tuple[str, tuple[str, ...]], str] = {
    ("tensorflow", ("convert", "m.onnx", "--to", "onnx,tflite", "--out", "out", "-q")): "the target tflite needs "
    f"tensorflow (extra tensorflow), which is not installed\n  fix: {INSTALL.format(extra='tensorflow')}, or leave "
    "tflite out of --to",
    ("onnx", CONVERT): f"m.onnx needs onnx, which is not installed\n  fix: {INSTALL.format(extra='onnx')} {GUIDE}",
    ("torch", (*CODE[:3], "onnx:fp16", *CODE[4:])): "the target onnx:fp16 needs torch (extra torch), which is not "
    f"installed\n  fix: {INSTALL.format(extra='torch')}, or leave onnx:fp16 out of --to",
    ("onnxruntime", (*VALIDATE, "--runtime", "onnxruntime")): "the runtime onnxruntime needs onnxruntime (extra onnx), "
    f"which is not installed\n  fix: {INSTALL.format(extra='onnx')} {GUIDE}",
    ("onnxruntime", CONVERT): "the runtime onnxruntime needs onnxruntime (extra onnx), which is not installed\n"
    f"  fix: {INSTALL.format(extra='onnx')} {GUIDE}",
}  # fmt: skip


@pytest.mark.parametrize(("absent", "words"), ABSENT, ids=lambda each: each if isinstance(each, str) else each[0])
def test_a_library_that_is_not_installed(absent: str, words: tuple[str, ...], files: Path) -> None:
    code = WITHOUT.format(absent=absent, words=words)
    done = subprocess.run([sys.executable, "-c", code], cwd=files, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"error: {ABSENT[absent, words]}\n")


def test_a_store_that_cannot_be_written_to(files: Path, transload: Callable[..., Ran]) -> None:
    (files / "file").write_text("x")
    status, _, err = transload(*CONVERT, "--store", "file")
    assert (status, err) == (
        2,
        f"error: {files}/file cannot be written to: Not a directory\n  fix: name another folder with --store\n",
    )


@pytest.mark.parametrize("out", ["file", "file/under"])
def test_an_out_that_cannot_be_made(out: str, files: Path, transload: Callable[..., Ran]) -> None:
    (files / "file").write_text("x")
    status, _, err = transload(*CONVERT[:-2], out, "--quiet")
    why = "File exists" if out == "file" else "Not a directory"
    assert (status, err) == (2, f"error: {out} cannot be made: {why}\n  fix: name another folder with --out\n")


def test_somebody_elses_folder_is_not_overwritten(files: Path, transload: Callable[..., Ran]) -> None:
    (files / "out" / "onnx").mkdir(parents=True)
    mine = files / "out" / "onnx" / "mine"
    mine.write_text("x")
    status, _, err = transload(*CONVERT)
    assert (status, err) == (
        2,
        "error: out/onnx holds something else than an artifact\n  fix: name another folder with --out\n",
    )
    assert mine.read_text() == "x"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with 20 kB left."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
    try:
        (disk / "full").write_bytes(bytes(180_000))
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk_under_the_store(small_disk: Path, files: Path, transload: Callable[..., Ran]) -> None:
    store = small_disk / "store"
    status, _, err = transload(*CONVERT, "--store", str(store))
    assert (status, err) == (
        2,
        f"error: the disk under {store} is full\n  fix: free some space, or name a folder elsewhere with --store\n",
    )
    assert not (files / "out" / "onnx").exists()


def test_a_full_disk_under_out(small_disk: Path, files: Path, transload: Callable[..., Ran]) -> None:
    out = small_disk / "out"
    status, _, err = transload(*CONVERT[:-2], str(out), "--quiet")
    assert (status, err) == (
        2,
        f"error: the disk under {out} is full\n  fix: free some space, or name another folder with --out\n",
    )
    assert not (out / "onnx").exists()
