"""Files of TensorFlow's formats and of TorchScript that are none, or that would do more than compute: one sentence, the
mend, exit 2; nothing in them is ever run."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transload.converters.readers.keras.keras_reader import import_keras
from transload.converters.readers.saved_model.saved_model_reader import import_saved_model
from transload.converters.readers.tflite.tflite_reader import import_tflite
from transload.converters.readers.torchscript.torchscript_reader import import_torchscript
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.signature import TensorSpec
from transload.models.store import digest_of
from transload.pipeline.plan.model_argument import start_of

from .conftest import Ran

Make = Callable[[Path, Path], object]  # (the folder that the command runs in, the folder of good models)
MAKER = Path(__file__).with_name("framework_file_maker.py")
AGAIN = {
    "keras": "copy it again, or save it again with model.save(FILE.keras)",
    "pt": "copy it again, or write it again with torch.jit.save",
    "sm": "copy it again, or save it again with tf.saved_model.save",
    "tflite": "copy it again, or convert it again",
}
EXPORT = "where you trust it, load it yourself, call model.export(FOLDER), and name that folder"
TRUST = "where you trust whoever made it, give --trust"


class Boom:
    """Whoever unpickles this leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.trace}",)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models; each framework makes its own in a process of its own."""
    folder = tmp_path_factory.mktemp("files")
    for framework in ("torch", "tensorflow"):
        argv = [sys.executable, str(MAKER), framework, str(folder)]
        made = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=300)
        assert made.returncode == 0, made.stderr
    return folder


def data(name: str, content: bytes) -> Make:
    return lambda here, files: (here / name).write_bytes(content)


def copied(name: str, to: str) -> Make:
    def make(here: Path, files: Path) -> None:
        (shutil.copytree if (files / name).is_dir() else shutil.copyfile)(files / name, here / to)

    return make


def cut(name: str, share: float) -> Make:
    """The first part of a good file."""

    def make(here: Path, files: Path) -> None:
        content = (files / name).read_bytes()
        (here / f"m{Path(name).suffix}").write_bytes(content[: int(len(content) * share)])

    return make


def edited(name: str, end: str, change: Callable[[bytes, Path], bytes], **added: bytes) -> Make:
    """A good archive with the entries that end in `end` put through `change`, and others added."""

    def make(here: Path, files: Path) -> None:
        with zipfile.ZipFile(files / name) as good, zipfile.ZipFile(here / f"m{Path(name).suffix}", "w") as bad:
            for entry in good.namelist():
                content = good.read(entry)
                bad.writestr(entry, change(content, here) if entry.endswith(end) else content)
            for entry, content in added.items():
                bad.writestr(entry, content)

    return make


def config(change: Callable[[dict[str, Any]], object]) -> Make:
    """good.keras with another configuration; `change` gets its one layer that is not the Input."""

    def write(content: bytes, here: Path) -> bytes:
        found = json.loads(content)
        change(found["config"]["layers"][1])
        return json.dumps(found).encode()

    return edited("good.keras", "config.json", write)


def bomb(name: str, *entries: str) -> Make:
    def make(here: Path, files: Path) -> None:
        with zipfile.ZipFile(here / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry in entries:
                archive.writestr(entry, bytes(50_000_000))

    return make


def hdf5(write: Callable[[Any], object]) -> Make:
    """good.keras with other weights."""

    def change(content: bytes, here: Path) -> bytes:
        import h5py

        made = io.BytesIO()
        with h5py.File(made, "w") as file:
            write(file)
        return made.getvalue()

    return edited("good.keras", "model.weights.h5", change)


def linked_weights(file: Any) -> None:
    import h5py

    file["layers"] = h5py.ExternalLink("/etc/passwd", "/")


def folder(name: str, change: Callable[[Path], object]) -> Make:
    """A good SavedModel, changed."""

    def make(here: Path, files: Path) -> None:
        shutil.copytree(files / name, here / "m")
        change(here / "m")

    return make


def linked(made: Path) -> None:
    file = made / "variables" / "variables.index"
    file.rename(made.parent / "x")
    file.symlink_to("../../x")


def graph_as_text(here: Path, files: Path) -> None:
    (here / "m").mkdir()
    (here / "m" / "saved_model.pbtxt").write_text("x")


def code(text: str) -> Make:
    """good.pt that calls something more."""
    return edited(
        "good.pt",
        ".py",
        lambda content, here: re.sub(rb"(?m)^(\s+)return ", rf"\1{text}\n\1return ".encode(), content, count=1),
    )


CASES: dict[str, tuple[Make, str, str]] = {  # what it is: how it is made, the model's word, what is said
    "empty keras": (data("m.keras", b""), "m.keras", "{here}/m.keras is empty\n  fix: copy it again, or make it again"),
    "truncated keras": (
        cut("good.keras", 0.7), "m.keras",
        f"{{here}}/m.keras is not a whole .keras file: File is not a zip file\n  fix: {AGAIN['keras']}",
    ),
    "another zip called keras": (
        lambda here, files: shutil.copyfile(files / "good.pt", here / "m.keras"), "m.keras",
        "{here}/m.keras is, by its content, of the kind torchscript and not keras\n  fix: call it m.pt",
    ),
    "a keras zip that unpacks to very much": (
        bomb("m.keras", "config.json", "model.weights.h5"), "m.keras",
        f"{{here}}/m.keras unpacks to far more than its own size\n  fix: {AGAIN['keras']}",
    ),
    "pickle called keras": (
        lambda here, files: (here / "m.keras").write_bytes(pickle.dumps(Boom(here.parent / "executed"))), "m.keras",
        f"{{here}}/m.keras is not a whole .keras file: File is not a zip file\n  fix: {AGAIN['keras']}",
    ),
    "HDF5 called keras": (
        data("m.keras", b"\x89HDF\r\n\x1a\n" + bytes(99)), "m.keras",
        "{here}/m.keras is a file of Keras 2 (HDF5), which may hold code that is run\n  fix: call it FILE.h5 and "
        "name the Python that it was saved by, with --python, or save it as FILE.keras",
    ),
    "HDF5": (
        data("m.h5", b"\x89HDF\r\n\x1a\n" + bytes(99)), "m.h5",
        "{here}/m.h5 is a file of HDF5, which Keras 2 kept models in, with code that is run, and is not taken as a "
        "model\n  fix: where you trust it, name the Python that it was saved by, with --python, or load it with Keras "
        "there and save it with model.save(FILE.keras)",
    ),
    "a Lambda layer": (
        copied("lambda.keras", "m.keras"), "m.keras",
        f"{{here}}/m.keras holds Python code (Lambda 'plus'), which is not run\n  fix: {EXPORT}",
    ),
    "a Keras model that was never built": (
        copied("unbuilt.keras", "m.keras"), "m.keras",
        "{here}/m.keras does not say what its model takes\n"
        "  fix: begin the model with keras.Input(shape), and save it again",
    ),
    "a layer that loads a SavedModel": (
        config(lambda layer: layer.update(class_name="TFSMLayer", config={"filepath": "/tmp/x", "name": "inner"})),
        "m.keras",
        "{here}/m.keras holds a layer that loads another SavedModel (TFSMLayer 'inner'), which is not run"
        f"\n  fix: {EXPORT}",
    ),
    "a custom layer": (
        config(lambda layer: layer.update(class_name="Mine", module="mine", registered_name="mine>Mine")), "m.keras",
        f"{{here}}/m.keras holds Mine 'y' of mine, whose code is not Keras's own\n  fix: {EXPORT}",
    ),
    "a function of another module": (
        config(lambda layer: layer["config"].update(
            activation={"class_name": "function", "module": "os", "config": "system", "registered_name": "function"}
        )), "m.keras",
        f"{{here}}/m.keras holds function of os, whose code is not Keras's own\n  fix: {EXPORT}",
    ),
    "a layer that reads a file": (
        config(lambda layer: layer.update(class_name="StringLookup", config={"vocabulary": "/etc/passwd"})), "m.keras",
        f"{{here}}/m.keras reads the file '/etc/passwd' when it is loaded\n  fix: {EXPORT}",
    ),
    "weights behind a link": (
        hdf5(linked_weights), "m.keras",
        f"{{here}}/m.keras keeps the weights 'layers' behind a link\n  fix: {AGAIN['keras']}",
    ),
    "weights said to be huge": (
        hdf5(lambda file: file.create_dataset("w", (1 << 40,), chunks=(1 << 10,), dtype="f4")), "m.keras",
        f"{{here}}/m.keras says that its weights are far larger than it is\n  fix: {AGAIN['keras']}",
    ),
    "an empty SavedModel": (
        folder("good", lambda made: (made / "saved_model.pb").write_bytes(b"")), "m",
        f"{{here}}/m holds no SavedModel: its saved_model.pb is missing or empty\n  fix: {AGAIN['sm']}",
    ),
    "a truncated SavedModel": (
        folder("good", lambda made: (made / "saved_model.pb").write_bytes((made / "saved_model.pb").read_bytes()[:-9])),
        "m",
        f"{{here}}/m/saved_model.pb is no whole SavedModel: it cannot be decoded\n  fix: {AGAIN['sm']}",
    ),
    "a SavedModel without its variables": (
        folder("good", lambda made: shutil.rmtree(made / "variables")), "m",
        "{here}/m lacks its variables\n  fix: copy the whole folder",
    ),
    "a SavedModel with a link": (
        folder("good", linked), "m",
        "{here}/m/variables/variables.index is a link, and may lead anywhere"
        "\n  fix: copy the SavedModel with its files",
    ),
    "a SavedModel beside another": (
        folder("good", lambda made: (made / "saved_model.cpb").write_bytes(b"x")), "m",
        "{here}/m/saved_model.cpb would be read in place of saved_model.pb\n  fix: leave one of the two away",
    ),
    "a graph as text": (
        graph_as_text, "m",
        "{here}/m/saved_model.pbtxt would be read in place of saved_model.pb\n  fix: leave one of the two away",
    ),
    "a graph without its folder": (
        lambda here, files: shutil.copyfile(files / "good" / "saved_model.pb", here / "m.pb"), "m.pb",
        "{here}/m.pb is a TensorFlow graph, and is not taken as a model"
        "\n  fix: name the folder of a SavedModel, with its variables",
    ),
    "a SavedModel that reads files": (
        copied("reads", "m"), "m",
        f"{{here}}/m holds the operator ReadFile (...: ReadFile), which reads files\n  fix: {TRUST}",
    ),
    "a SavedModel that writes files where nobody looks": (
        copied("hidden", "m"), "m",
        f"{{here}}/m holds the operator WriteFile (...: WriteFile), which writes files\n  fix: {TRUST}",
    ),
    "a SavedModel that runs Python": (
        copied("python", "m"), "m",
        f"{{here}}/m holds the operator EagerPyFunc (...: EagerPyFunc), which runs Python\n  fix: {TRUST}",
    ),
    "a SavedModel that restores from another file": (
        copied("restores", "m"), "m",
        f"{{here}}/m holds the operator RestoreV2 (...: RestoreV2), which reads files\n  fix: {TRUST}",
    ),
    "a SavedModel of several signatures": (
        copied("named", "m"), "m",
        "{here}/m has the signatures classify, embed, and serving_default is not among them"
        "\n  fix: save it with tf.saved_model.save(MODEL, FOLDER, signatures={{'serving_default': FUNCTION}})",
    ),
    "a SavedModel that handles text": (
        copied("measures", "m"), "m",
        f"{{here}}/m holds the operator StringLength (...: StringLength), which handles text that no format carries"
        f"\n  fix: {TRUST}",
    ),
    "a SavedModel that takes text": (
        copied("text", "m"), "m",
        "{here}/m: y is text, and no copy can be made: the other formats do not carry it"
        "\n  fix: serve it as it is: transload serve {here}/m; or save a signature that takes and gives numbers or "
        "booleans",
    ),
    "a SavedModel that takes serialized examples": (
        copied("parses", "m"), "m",
        "{here}/m: examples is text, and no copy can be made: the other formats do not carry it"
        "\n  fix: serve it as it is: transload serve {here}/m; or save a signature that takes and gives numbers or "
        "booleans",
    ),
    "a SavedModel of any rank": (
        copied("shapeless", "m"), "m",
        "{here}/m says no shape of x\n  fix: name it, as in --input x=float32[batch,224,224,3]",
    ),
    "empty tflite": (
        data("m.tflite", b""), "m.tflite", "{here}/m.tflite is empty\n  fix: copy it again, or make it again",
    ),
    "truncated tflite": (
        cut("good.tflite", 0.8), "m.tflite",
        "{here}/m.tflite is no whole TFLite file: The model is not a valid Flatbuffer buffer"
        f"\n  fix: {AGAIN['tflite']}",
    ),
    "garbage with a head of tflite": (
        data("m.tflite", b"\xff\xff\xff\xffTFL3" + b"\xff" * 99), "m.tflite",
        "{here}/m.tflite is no whole TFLite file: The model is not a valid Flatbuffer buffer"
        f"\n  fix: {AGAIN['tflite']}",
    ),
    "another file called tflite": (
        data("m.tflite", bytes(range(256))), "m.tflite",
        f"{{here}}/m.tflite is no TFLite file\n  fix: {AGAIN['tflite']}",
    ),
    "tflite with TensorFlow's operators": (
        copied("flex.tflite", "m.tflite"), "m.tflite",
        "{here}/m.tflite needs TensorFlow's Flex delegate for FlexErf, and LiteRT, which is asked what a file gives, "
        "has none"
        "\n  fix: convert it again with TFLITE_BUILTINS alone, or name the SavedModel that it was made from",
    ),
    "tflite with custom operators": (
        copied("custom.tflite", "m.tflite"), "m.tflite",
        "{here}/m.tflite needs the custom operator Erf, which LiteRT does not have"
        "\n  fix: name the model that it was made from",
    ),
    "empty TorchScript": (data("m.pt", b""), "m.pt", "{here}/m.pt is empty\n  fix: copy it again, or make it again"),
    "truncated TorchScript": (
        cut("good.pt", 0.8), "m.pt",
        f"{{here}}/m.pt is not a whole TorchScript archive: it is no zip file\n  fix: {AGAIN['pt']}",
    ),
    "a checkpoint": (
        copied("weights.pt", "m.pt"), "m.pt",
        "{here}/m.pt is a checkpoint and no TorchScript archive: the code of its model is not in it"
        "\n  fix: name that code, as in transload convert net.py:Net --weights m.pt",
    ),
    "an old checkpoint": (
        copied("old.pt", "m.pth"), "m.pth",
        "{here}/m.pth is a checkpoint and no TorchScript archive: the code of its model is not in it"
        "\n  fix: name that code, as in transload convert net.py:Net --weights m.pth",
    ),
    "a pickle called TorchScript": (
        lambda here, files: (here / "m.pt").write_bytes(pickle.dumps(Boom(here.parent / "executed"))), "m.pt",
        "{here}/m.pt is a checkpoint and no TorchScript archive: the code of its model is not in it"
        "\n  fix: name that code, as in transload convert net.py:Net --weights m.pt",
    ),
    "an exported program called TorchScript": (
        copied("exported.pt2", "m.pt"), "m.pt",
        "{here}/m.pt is, by its content, of the kind pt2 and not torchscript\n  fix: call it m.pt2",
    ),
    "another zip called TorchScript": (
        copied("good.keras", "m.pt"), "m.pt",
        "{here}/m.pt is, by its content, of the kind keras and not torchscript\n  fix: call it m.keras",
    ),
    "a TorchScript zip that unpacks to very much": (
        bomb("m.pt", "m/constants.pkl", "m/code/x.py"), "m.pt",
        f"{{here}}/m.pt unpacks to far more than its own size\n  fix: {AGAIN['pt']}",
    ),
    "TorchScript with a pickle of Python": (
        edited("good.pt", "/data.pkl", lambda _, here: pickle.dumps(Boom(here.parent / "executed"), protocol=2)),
        "m.pt",
        f"{{here}}/m.pt holds a pickle that names posix.system (good/data.pkl), which is not executed"
        f"\n  fix: {AGAIN['pt']}",
    ),
    "TorchScript that writes a file": (
        code('torch.save(x, "executed")'), "m.pt",
        f"{{here}}/m.pt calls save (good/code/__torch__.py), which may do more than compute\n  fix: {TRUST}",
    ),
    "TorchScript that talks to others": (
        code("_0 = ops.c10d.barrier(x)"), "m.pt",
        "{here}/m.pt calls c10d::barrier (good/code/__torch__.py), which may do more than compute"
        f"\n  fix: {TRUST}",
    ),
    "TorchScript that does not say what it takes": (
        copied("good.pt", "m.pt"), "m.pt",
        "{here}/m.pt does not say what shapes it takes"
        "\n  fix: name each input, as in --input x=float32[batch,3,224,224]",
    ),
    "TorchScript that returns a number": (
        copied("counts.pt", "m.pt"), "m.pt",
        "{here}/m.pt returns more than tensors"
        "\n  fix: let forward return tensors, or tuples and dicts of them",
    ),
    "TorchScript that takes a list": (
        copied("listed.pt", "m.pt"), "m.pt",
        "forward of {here}/m.pt takes many as List[Tensor]\n  fix: save a module whose forward takes tensors",
    ),
}  # fmt: skip


ENTRIES = {".keras": import_keras, ".pt": import_torchscript, ".pth": import_torchscript, ".tflite": import_tflite}


def take(path: Path, out: Path, *, inputs: bool = False) -> None:
    """As a worker takes it in, once its kind is told."""
    assert start_of(str(path)) is not None
    entry = ENTRIES.get(path.suffix, import_saved_model)
    asked = [TensorSpec("x", "float32", ("batch", 4)).to_json()] if inputs else []
    entry(Job({}, out, {"path": str(path), "sha256": digest_of(path), "inputs": asked}))


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_model_or_more_is_refused_in_one_sentence_and_never_run(
    case: str, here: Path, files: Path, tmp_path: Path
) -> None:
    make, word, said = CASES[case]
    make(here, files)
    (tmp_path / "out").mkdir()
    with pytest.raises(BadRequest) as caught:
        take(here / word, tmp_path / "out", inputs="a number" in case)
    pattern = re.escape(said.format(here=here)).replace(re.escape("..."), r"[\w<>.:/]*?")
    assert re.fullmatch(pattern, str(caught.value)), caught.value
    assert not (here.parent / "executed").exists()
    assert not (here / "executed").exists()
    assert not list((tmp_path / "out").iterdir())


COMMANDS = ("a Lambda layer", "a SavedModel that runs Python", "truncated tflite", "a checkpoint")


@pytest.mark.parametrize("case", COMMANDS)
def test_the_command_says_it_and_ends_with_2(case: str, here: Path, files: Path, transload: Callable[..., Ran]) -> None:
    make, word, said = CASES[case]
    make(here, files)
    status, out, err = transload("convert", word, "--to", "onnx", "--out", "out", "--quiet")
    begin, _, end = f"error: {said.format(here=here)}\n".partition("...")
    assert err.startswith(begin)
    assert err.endswith(end)
    assert (status, out) == (2, "")
    assert not (here / "out" / "onnx").exists()


@pytest.mark.slow
@pytest.mark.parametrize("word", ["good", "good.keras", "good.tflite", "good.pt"])
def test_a_good_model_of_each_kind_is_taken(word: str, here: Path, files: Path, transload: Callable[..., Ran]) -> None:
    asked = ("--input", "x=float32[batch,4]") if word == "good.pt" else ()
    status, out, err = transload("convert", str(files / word), *asked, "--to", "onnx", "--out", "out", "--quiet")
    assert (status, err) == (0, "")
    assert "verified" in out
    assert (here / "out" / "onnx" / "model.onnx").is_file()


def test_trust_takes_what_may_do_more_than_compute(here: Path, files: Path, transload: Callable[..., Ran]) -> None:
    words = ("convert", str(files / "reads"), "--to", "saved-model", "--out", "out", "--quiet")
    assert transload(*words)[0] == 2
    assert transload(*words, "--trust")[0] == 0
    status, _, err = transload("bench", "out/saved-model", "--runtime", "tensorflow", "--quiet")  # no better as a copy
    assert (status, "holds the operator ReadFile" in err) == (2, True)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            TensorSpec("image", "float32", ("batch", 4)),
            "forward of {path} takes x, and --input names image\n  fix: give each input of the model once, by its name",
        ),
        (
            TensorSpec("x", "float32", ("batch", 5)),
            "calling {path} failed: mat1 and mat2 shapes cannot be multiplied (...)"
            "\n  fix: hold x=float32[batch,5] against what it takes",
        ),
    ],
)
def test_torchscript_that_does_not_take_what_is_asked(
    asked: TensorSpec, said: str, files: Path, tmp_path: Path
) -> None:
    path = files / "good.pt"
    options = {"path": str(path), "sha256": digest_of(path), "inputs": [asked.to_json()]}
    with pytest.raises(BadRequest) as caught:
        import_torchscript(Job({}, tmp_path, options))
    begin, _, end = said.format(path=path).partition("...")
    assert str(caught.value).startswith(begin)
    assert str(caught.value).endswith(end)
