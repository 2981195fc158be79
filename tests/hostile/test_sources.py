"""Whatever a person names as a model, and is none: one sentence, the mend, exit 2; nothing in it is ever run."""

from __future__ import annotations

import gc
import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, helper

from transload.models.artifact import write_artifact
from transload.models.errors import BadRequest, StepFailed
from transload.models.formats import Format, Target
from transload.models.signature import Signature, parse_input
from transload.pipeline.commands.stages import model_process
from transload.pipeline.workers.isolation import Limits, Spawn
from transload.pipeline.workers.walls.sandbox import landlock_version
from transload.serving.server.repository.version_keeper import VersionSource

from .conftest import Ran, onnx_model, put
from .corpus.case import NET

Make = Callable[[Path, Path], object]  # (the folder that the command runs in, the folder of good programs)
TAKEN = (
    "name FILE.py[:NAME], package.module:NAME, zoo:NAME, torchvision:NAME, timm:NAME, hf:FOLDER, FILE.onnx, FILE.pt2, "
    "FILE.pt (TorchScript), FILE.keras, FILE.tflite, a SavedModel's folder, or the folder of an artifact "
    "(docs/convert.md)"
)
AGAIN = "copy it again, or export it again"
AGAIN_PT2 = "copy it again, or write it again with torch.export.save"
TRUSTED = "where you trust it, load it yourself and write it again with torch.export.save, from plain tensors"


class Boom:
    """Whoever unpickles this leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.trace}",)


def boom(here: Path) -> bytes:
    return pickle.dumps(Boom(here.parent / "executed"), protocol=2)  # as torch.save writes it


def data(name: str, content: bytes) -> Make:
    return lambda here, programs: (here / name).write_bytes(content)


def model(name: str, made: Any) -> Make:
    return lambda here, programs: put(here / name, made)


def edited(name: str, **changes: Callable[[bytes, Path], bytes]) -> Make:
    """good.pt2 with the entries that end in a key of `changes` put through its function."""

    def make(here: Path, programs: Path) -> None:
        with zipfile.ZipFile(programs / "good.pt2") as good, zipfile.ZipFile(here / name, "w") as bad:
            for entry in good.namelist():
                content = good.read(entry)
                for end, change in changes.items():
                    content = change(content, here) if entry.endswith(end) else content
                bad.writestr(entry, content)

    return make


def linked(here: Path, programs: Path) -> None:
    (here.parent / "secret").write_bytes(bytes(48))
    (here / "w.bin").symlink_to(here.parent / "secret")
    put(here / "m.onnx", onnx_model(external="w.bin"))


def in_attribute() -> Any:
    """External data not of a weight, but of a constant inside a node."""
    made = onnx_model()
    tensor = TensorProto(name="c", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/passwd")
    node = helper.make_node("Constant", [], ["c"])
    node.attribute.append(AttributeProto(name="value", type=AttributeProto.TENSOR, t=tensor))
    made.graph.node.append(node)
    return made


def of_acme() -> Any:
    """An operator of somebody's own, which no runtime here has."""
    made = onnx_model()
    made.graph.node[0].domain = "com.acme"
    made.opset_import.append(helper.make_opsetid("com.acme", 1))
    return made


def too_long() -> Any:
    made = onnx_model(external="w.bin")
    made.graph.initializer[0].external_data.add(key="length", value="999999999999")
    return made


def with_data(made: Any, content: bytes) -> Make:
    def make(here: Path, programs: Path) -> None:
        put(here / "m.onnx", made)
        (here / "w.bin").write_bytes(content)

    return make


def zipped(here: Path, programs: Path) -> None:
    with zipfile.ZipFile(here / "m.pt2", "w") as archive:
        archive.writestr("a", "b")


def bomb(here: Path, programs: Path) -> None:
    with zipfile.ZipFile(here / "m.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/models/model.json", bytes(50_000_000))


def library(here: Path, programs: Path) -> None:
    shutil.copyfile(programs / "good.pt2", here / "m.pt2")
    with zipfile.ZipFile(here / "m.pt2", "a") as archive:
        archive.writestr("good/data/aotinductor/model/model.so", b"\x7fELF")


def folder(here: Path, programs: Path) -> None:
    (here / "m").mkdir()


GOOD = onnx_model().SerializeToString()
CASES: dict[str, tuple[Make, str, str]] = {  # what it is: how it is made, the model's word, what is said
    "empty onnx": (data("m.onnx", b""), "m.onnx", "{here}/m.onnx is empty\n  fix: copy it again, or make it again"),
    "truncated onnx": (
        data("m.onnx", GOOD[:-9]), "m.onnx",
        f"{{here}}/m.onnx is no whole ONNX model: it cannot be decoded\n  fix: {AGAIN}",
    ),
    "garbage onnx": (
        data("m.onnx", bytes(range(256)) * 9), "m.onnx",
        f"{{here}}/m.onnx is no whole ONNX model: it cannot be decoded\n  fix: {AGAIN}",
    ),
    "onnx with a length of 2 GB": (
        data("m.onnx", b"\x3a\xff\xff\xff\xff\x07" + b"x" * 20), "m.onnx",
        f"{{here}}/m.onnx is no whole ONNX model: it cannot be decoded\n  fix: {AGAIN}",
    ),
    "onnx without a graph": (
        data("m.onnx", b"\x08\x08"), "m.onnx",
        f"{{here}}/m.onnx is no ONNX model: it holds no graph with outputs\n  fix: {AGAIN}",
    ),
    "pickle called onnx": (
        lambda here, programs: (here / "m.onnx").write_bytes(boom(here)), "m.onnx",
        f"{{here}}/m.onnx is no whole ONNX model: it cannot be decoded\n  fix: {AGAIN}",
    ),
    "data at an absolute path": (
        model("m.onnx", onnx_model(external="/etc/passwd")), "m.onnx",
        "m.onnx keeps the tensor w in '/etc/passwd', which leads out of its folder"
        "\n  fix: export it again with its data beside it",
    ),
    "data above the folder": (
        model("m.onnx", onnx_model(external="a/../../secret")), "m.onnx",
        "m.onnx keeps the tensor w in 'a/../../secret', which leads out of its folder"
        "\n  fix: export it again with its data beside it",
    ),
    "data of a constant": (
        model("m.onnx", in_attribute()), "m.onnx",
        "m.onnx keeps the tensor c in '/etc/passwd', which leads out of its folder"
        "\n  fix: export it again with its data beside it",
    ),
    "data behind a link": (
        linked, "m.onnx",
        "m.onnx keeps the tensor w in 'w.bin', a link out of its folder\n  fix: copy the data itself beside the model",
    ),
    "data that is missing": (
        model("m.onnx", onnx_model(external="w.bin")), "m.onnx",
        "m.onnx keeps the tensor w in 'w.bin', which is not there\n  fix: put w.bin beside m.onnx",
    ),
    "data longer than its file": (
        with_data(too_long(), bytes(48)), "m.onnx",
        "m.onnx keeps the tensor w in 'w.bin', which is shorter than that\n  fix: copy the data again",
    ),
    "empty pt2": (data("m.pt2", b""), "m.pt2", "{here}/m.pt2 is empty\n  fix: copy it again, or make it again"),
    "truncated pt2": (
        lambda here, programs: (here / "m.pt2").write_bytes((programs / "good.pt2").read_bytes()[:2000]), "m.pt2",
        f"{{here}}/m.pt2 is not a whole file of torch.export.save: File is not a zip file\n  fix: {AGAIN_PT2}",
    ),
    "another zip called pt2": (
        zipped, "m.pt2", "{here}/m.pt2 holds no exported program\n  fix: write it with torch.export.save",
    ),
    "a zip that unpacks to very much": (
        bomb, "m.pt2", f"{{here}}/m.pt2 unpacks to far more than its own size\n  fix: {AGAIN_PT2}",
    ),
    "pt2 with a pickle as its sample": (
        edited("m.pt2", **{"sample_inputs/model.pt": lambda _, here: boom(here)}), "m.pt2",
        "{here}/m.pt2 holds a pickle of more than tensors (good/data/sample_inputs/model.pt), which is not executed"
        f"\n  fix: {TRUSTED}",
    ),
    "pt2 with a pickle as a weight": (
        edited(
            "m.pt2",
            **{
                "weights_config.json": lambda text, _: text.replace(b'"use_pickle": false', b'"use_pickle": true'),
                "weight_0": lambda _, here: boom(here),
            },
        ), "m.pt2",
        "{here}/m.pt2 holds a pickle of more than tensors (good/data/weights/model_weights_config.json), which is not "
        f"executed\n  fix: {TRUSTED}",
    ),
    "pt2 with a compiled library": (
        library, "m.pt2",
        "{here}/m.pt2 holds a compiled library (good/data/aotinductor/model/model.so), which is not loaded"
        f"\n  fix: {TRUSTED}",
    ),
    "pt2 with a broken table": (
        edited("m.pt2", **{"model_weights_config.json": lambda _, __: b"[]"}), "m.pt2",
        "{here}/m.pt2 holds a PayloadConfig that is no object (good/data/weights/model_weights_config.json)"
        "\n  fix: export the model again with torch.export.export, from operators of torch alone",
    ),
    "a missing file": (
        lambda here, programs: None, "m.onnx",
        "no such file: m.onnx\n  fix: check the path; it starts at the folder you run transload in",
    ),
    "a missing python file": (
        lambda here, programs: None, "m.py:Net",
        "no such file: {here}/m.py\n  fix: check the path; it starts at the folder you run transload in",
    ),
    "a missing module": (
        lambda here, programs: None, "no.such:Net",
        "there is no module 'no.such'\n  fix: check its name, and the folder you run transload in",
    ),
    "a missing module of one word": (
        lambda here, programs: None, "resnet50",
        "there is no module 'resnet50'\n  fix: check its name, and the folder you run transload in; "
        "a model of a library is named as in torchvision:resnet50 or timm:resnet50",
    ),
    "a missing name": (
        data("m.py", NET.encode()), "m.py:Nett", "m.py holds no Nett\n  fix: name what it holds: m.py:Net",
    ),
    "code that does not say what it takes": (
        data("m.py", NET.encode()), "m.py:Net",
        "nothing says what m.py:Net takes: its forward takes x\n"
        "  fix: name each input, as in --input image=float32[batch,3,224,224], or write example_inputs() beside it",
    ),
    "an unknown recipe": (
        lambda here, programs: None, "zoo:nope",
        "the zoo has no recipe 'nope'\n  fix: use one of digits-cnn, digits-vit, digits-gru, digits-pair, "
        "breast-cancer-mlp",
    ),
    "a folder without a record": (
        folder, "m",
        f"m holds no model: there is neither artifact.json nor saved_model.pb in it\n  fix: {TAKEN}",
    ),
    "an operator that no runtime has": (
        model("m.onnx", of_acme()), "m.onnx",
        "onnxruntime cannot open m.onnx: Fatal error: com.acme:MatMul(-1) is not a registered function/op"
        "\n  fix: copy m.onnx again, or make it of operators that onnxruntime has; "
        "it says more in .transload/refused/reference.log",
    ),
    "an unknown file": (
        data("m.bin", b"x"), "m.bin",
        f"m.bin is no model of a kind that is known, and is not taken as a model\n  fix: {TAKEN}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_model_is_refused_in_one_sentence_and_never_run(
    case: str, here: Path, programs: Path, transload: Callable[..., Ran]
) -> None:
    make, word, said = CASES[case]
    make(here, programs)
    status, out, err = transload("convert", word, "--to", "onnx", "--out", "out", "--quiet")
    assert err == f"error: {said.format(here=here)}\n"
    assert (status, out) == (2, "")
    assert not (here.parent / "executed").exists()
    assert not (here / "out" / "onnx").exists()


def test_the_trace_is_left_by_whoever_unpickles(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    pickle.loads(boom(tmp_path / "here"))  # noqa: S301
    assert (tmp_path / "executed").exists()


def test_data_inside_the_folder_is_taken_and_seen_when_it_changes(here: Path, transload: Callable[..., Ran]) -> None:
    put(here / "m.onnx", onnx_model(external="w.bin"))
    made = []
    for factor in (1, 2):
        (here / "w.bin").write_bytes((factor * np.arange(12, dtype="<f4")).tobytes())
        assert transload("convert", "m.onnx", "--to", "onnx", "--out", "out", "--quiet")[0] == 0
        made.append((here / "out" / "onnx" / "model.onnx").read_bytes())
    assert made[0] != made[1]
    assert b"w.bin" not in made[0]


def linked_payload(made: Path) -> None:
    (made / "model.onnx").rename(made.parent / "x")
    (made / "model.onnx").symlink_to("../x")


ARTIFACTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "its data leads out": (
        lambda made: put(made / "model.onnx", onnx_model(external="/etc/passwd")),
        "model.onnx keeps the tensor w in '/etc/passwd', which leads out of its folder"
        "\n  fix: export it again with its data beside it",
    ),
    "its payload is a link": (
        linked_payload,
        "{made}/model.onnx is a link, and may lead anywhere\n  fix: copy the artifact with its files",
    ),
    "its payload is gone": (
        lambda made: (made / "model.onnx").unlink(),
        "{made} lacks its model.onnx\n  fix: make the artifact again",
    ),
    "its record is cut short": (
        lambda made: (made / "artifact.json").write_text('{"target": "onnx"}'),
        "{made} holds no artifact: 'signature'\n  fix: name a folder under runs/<id>/artifacts/",
    ),
}


@pytest.mark.parametrize("case", ARTIFACTS)
@pytest.mark.parametrize("command", ["convert", "validate", "bench", "serve"])
def test_an_artifact_that_was_tampered_with_is_refused_by_every_command(
    case: str, command: str, here: Path, transload: Callable[..., Ran]
) -> None:
    put(here / "m.onnx", onnx_model())
    assert transload("convert", "m.onnx", "--to", "onnx", "--out", "out", "--quiet")[0] == 0
    breaks, said = ARTIFACTS[case]
    breaks(here / "out" / "onnx")
    words = {
        "convert": ("--to", "onnx:fp16", "--out", "more", "--quiet"),
        "validate": ("--against", "m.onnx", "--quiet"),
        "bench": ("--processes", "1", "--budget", "0s", "--quiet"),
        "serve": ("--grpc-port", "0", "--rest-port", "0"),
    }
    status, _, err = transload(command, "out/onnx", *words[command])
    made = Path("out/onnx") if "holds no artifact" in said and command != "serve" else here / "out" / "onnx"
    assert (status, err) == (2, f"error: {said.format(made=made)}\n")


def weights(kind: str) -> Callable[[Path], bytes]:
    def cut(here: Path) -> bytes:
        header = b'{"inner.weight":{"dtype":"F32","shape":[3,4],"data_offsets":[0,48]}}'
        return len(header).to_bytes(8, "little") + header + bytes(20)

    def archive(here: Path) -> bytes:
        """A checkpoint as torch.save writes it, with a pickle that does something."""
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w") as file:
            file.writestr("w/data.pkl", boom(here))
            file.writestr("w/version", "3\n")
            file.writestr("w/byteorder", "little")
        return whole.getvalue()

    return {
        "boom": boom,
        "archive": archive,
        "cut": cut,
        "huge": lambda here: b"\xff" * 8 + b"1",
        "empty": lambda here: b"",
    }[kind]


MORE = "copy it again, or save model.state_dict() again"
SAFE = "copy it again, or save it again"
WEIGHTS = {
    ("w.pt", "boom"): f"{{path}} is not a whole checkpoint: it is no checkpoint of torch.save\n  fix: {MORE}",
    ("w.ckpt", "archive"): "{path} holds no state dict, but an object of posix.system\n  fix: save model.state_dict()",
    ("w.safetensors", "cut"): f"{{path}} is not a whole safetensors file: it has 96 bytes of 124\n  fix: {SAFE}",
    ("w.safetensors", "huge"): f"{{path}} is not a whole safetensors file: its header is cut short\n  fix: {SAFE}",
    ("w.safetensors", "empty"): "{path} is empty\n  fix: copy it again, or save it again",
}  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), WEIGHTS)
def test_weights_that_are_none_are_refused_and_never_run(
    name: str, kind: str, here: Path, transload: Callable[..., Ran]
) -> None:
    (here / "net.py").write_text(NET)
    (here / name).write_bytes(weights(kind)(here))
    words = ("--input", "x=float32[batch,4]", "--weights", name, "--to", "onnx", "--out", "out", "--quiet")
    status, _, err = transload("convert", "net.py:Net", *words)
    begin, _, end = f"error: {WEIGHTS[name, kind].format(path=here / name)}\n".partition("...")
    assert status == 2
    assert err.startswith(begin)
    assert err.endswith(end)
    assert not (here.parent / "executed").exists()


@pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
@pytest.mark.parametrize("act", ["open({!r}).read()", "open({!r}, 'w').write('x')"])
def test_code_reads_its_own_folder_and_writes_none(act: str, here: Path, transload: Callable[..., Ran]) -> None:
    beside = here.parent / "beside.txt"
    beside.write_text("kept")
    (here / "net.py").write_text(f"import torch\n{act.format(str(beside))}\ndef make(): return torch.nn.ReLU()\n")
    words = (
        "convert",
        "net.py:make",
        "--input",
        "x=float32[batch,2]",
        "--to",
        "torchscript",
        "--out",
        "out",
        "--quiet",
    )
    status, out, err = transload(*words)
    assert (status, out) == (2, "")
    assert err == (
        f"error: importing net.py raised PermissionError at {here / 'net.py'}:2: [Errno 13] Permission denied: "
        f"{str(beside)!r}\n  fix: put {beside} into the folder of the model's code, which it may read and not "
        "write, or give --trust; the log has the traceback\n"
    )
    assert beside.read_text() == "kept"
    status, out, _ = transload(*words, "--trust")
    assert (status, out.splitlines()[-3]) == (0, "not sandboxed: --trust was given")
    assert json.loads((here / "out" / "convert.json").read_text())["doubts"] == ["not sandboxed: --trust was given"]


DAEMON = """
import os, time, torch
if not os.fork():
    os.setsid()
    if not os.fork():
        print(f"daemon {os.getpid()}", flush=True)
        time.sleep(60)
    os._exit(0)
time.sleep(0.2)
def make(): return torch.nn.ReLU()
"""


def test_a_daemon_that_a_models_code_starts_ends_with_the_command(here: Path, transload: Callable[..., Ran]) -> None:
    (here / "net.py").write_text(DAEMON)
    words = ("net.py:make", "--input", "x=float32[batch,2]", "--to", "torchscript", "--out", "out", "--quiet")
    assert transload("convert", *words)[0] == 0
    logs = "".join(log.read_text() for log in (here / "out" / "logs").glob("*.log"))
    daemons = [int(word) for word in re.findall(r"daemon (\d+)", logs)]
    assert daemons
    assert [pid for pid in daemons if Path(f"/proc/{pid}").exists()] == []


CANARY = "canary-7f3a91"
SECRETS = (".aws/credentials", ".ssh/id_rsa", ".netrc", ".config/gcloud/credentials.db")
SPY = """
import os, torch
from pathlib import Path

def tried(what, read):
    try:
        print("read", what, read())
    except OSError as error:
        print("not read", what, error.strerror)

def memory(pid):
    start = int(Path(f"/proc/{pid}/maps").read_text().split("-")[0], 16)
    with open(f"/proc/{pid}/mem", "rb") as file:
        file.seek(start)
        return file.read(1 << 16)

print("environment", dict(os.environ))
for pid in {pids!r}:
    tried("environ", lambda: Path(f"/proc/{pid}/environ").read_bytes())
    tried("memory", lambda: memory(pid))
    tried("command", lambda: Path(f"/proc/{pid}/cmdline").read_bytes())
for path in {paths!r}:
    tried("file", Path(path).read_text)
def make(): return torch.nn.ReLU()
"""


@pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
def test_a_models_code_reads_no_secret_and_nothing_that_is_kept_holds_one(
    here: Path, transload: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = here.parent / "home"
    for name in SECRETS:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(CANARY)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    monkeypatch.setenv("TRANSLOAD_TOKEN", CANARY)
    paths = [str(home / name) for name in SECRETS]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:  # of the same user
        (here / "net.py").write_text(
            SPY.replace("{pids!r}", f"[{os.getpid()}, {bystander.pid}]").replace("{paths!r}", repr(paths))
        )
        words = ("net.py:make", "--input", "x=float32[batch,2]", "--to", "torchscript", "--out", "out", "--quiet")
        status, out, err = transload("convert", *words)
        bystander.communicate()
    assert (status, CANARY in out + err) == (0, False)
    logs = "".join(log.read_text() for log in (here / "out" / "logs").glob("*.log"))
    assert "environment {" in logs
    assert len(re.findall("^not read ", logs, re.MULTILINE)) >= 2 * 3 + len(SECRETS)
    assert not re.findall("^read .*", logs, re.MULTILINE)
    kept = [path for folder in ("out", ".transload") for path in (here / folder).rglob("*") if path.is_file()]
    assert [path for path in kept if CANARY.encode() in path.read_bytes()] == []


@pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
def test_the_process_of_a_served_model_reads_no_secret(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As serve starts it, with a model whose folder holds code that spies."""
    home = here.parent / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text(CANARY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    put(here / "a.onnx", onnx_model())
    code = f"""
import os
from pathlib import Path
def look(**_options):
    seen = [dict(os.environ)]
    for path in ["/proc/{os.getpid()}/environ", "/proc/{os.getpid()}/mem", "{home}/.ssh/id_rsa", "/proc/self/environ"]:
        try:
            seen.append(Path(path).read_bytes()[:100000].decode(errors="replace"))
        except OSError as error:
            seen.append(error.strerror)
    print(seen, flush=True)
    raise ValueError("looked")
"""
    spies = here.parent / "spies"
    spies.mkdir()
    (spies / "spy.py").write_text(code)
    monkeypatch.setattr(model_process, "_HOST", "spy:look")

    def with_spies(log: Path, cwd: Path, limits: Limits, reads: tuple[str, ...], passes: tuple[int, ...] = ()) -> Spawn:
        return Spawn(log, cwd, limits, (str(spies),), reads, passes=passes)

    monkeypatch.setattr(model_process, "Spawn", with_spies)
    processes = model_process.ModelProcesses(here, Limits(seconds=60))
    source = VersionSource("net", 1, here / "a.onnx")
    with pytest.raises(StepFailed, match="looked"):
        processes.open(source, threading.Event())
    log = processes.log(source).read_text()
    assert log.count("Permission denied") == 3
    assert CANARY not in log


@pytest.mark.parametrize("made", ["artifact", "file"])
def test_a_served_file_that_is_swapped_after_its_check_is_checked_before_it_is_opened(made: str, here: Path) -> None:
    """The check was kept by path: a file that was put there afterwards was opened without one."""
    model, path = here / "net", here / "net" / "model.onnx"
    model.mkdir()
    put(path, onnx_model())
    if made == "artifact":
        x, y = parse_input("x=float32[batch,4]"), parse_input("y=float32[batch,3]")
        write_artifact(model, Target(Format.ONNX), Signature((x,), (y,)))
    processes = model_process.ModelProcesses(here.parent / "scratch", Limits(seconds=60))
    source = VersionSource("net", 1, model if made == "artifact" else path)

    def answers() -> list[list[float]]:
        session = processes.open(source, threading.Event()).session
        try:
            return session.run({"x": np.ones((1, 4), np.float32)})["y"].tolist()
        finally:
            session.close()

    first, times = answers(), path.stat()
    hostile = onnx_model(external="/etc/passwd").SerializeToString()
    path.write_bytes(hostile.ljust(times.st_size, b"\0")[: times.st_size])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert answers() == first  # it looks unchanged: what was checked is opened, whatever lies there now
    path.write_bytes(hostile)
    with pytest.raises(BadRequest, match="/etc/passwd") as refused:
        answers()
    assert "scratch" not in refused.value.what
    del refused
    put(path, onnx_model())
    assert answers() == first
    gc.collect()
    assert len([*(here.parent / "scratch").rglob("model.onnx")]) == 1  # copies go with the last session
