"""`transload doctor` on machines of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from transload.models.errors import Exit
from transload.pipeline.cli import main
from transload.pipeline.commands.doctor import Diagnosis, Machine, State, examine, exit_code

WHOLE = {"numpy": "2.4.6", "protobuf": "6.33.6", "onnxruntime": "1.31.1"}
ASKED = ("numpy>=2.1", "protobuf<7,>=6.33.6", 'onnxruntime<1.32,>=1.31; extra == "onnx"', 'pytest>=8; extra == "dev"')


def machine(
    versions: Mapping[str, str] = WHOLE, *, without: tuple[str, ...] = (), gpus: tuple[str, ...] = ()
) -> Machine:
    """A machine with these libraries, where the modules `without` cannot be found."""
    return Machine(
        python=(3, 11, 7),
        version=versions.get,
        requirements=lambda: ASKED,
        find=lambda name: None if name in without else object(),
        gpus=lambda: gpus,
        onnxruntime_folder=lambda: None,
        which=lambda name: None,
        environ={},
        landlock=lambda: 7,
        missing_walls=tuple,
        has_namespaces=lambda: True,
        cpu_flags=lambda: frozenset({"avx2", "avx512_vnni"}),
        free_bytes=lambda path: 10**12,
    )


def said(here: Machine, store: Path, *states: State) -> list[tuple[str, str, str | None]]:
    """What a machine is told, of these kinds."""
    return [(each.name, each.text, each.fix) for each in examine(store, here) if each.state in states]


def test_a_machine_with_everything_has_nothing_to_mend(tmp_path: Path) -> None:
    found = examine(tmp_path, machine())
    assert said(machine(), tmp_path, State.FAIL, State.WARN) == []
    assert exit_code(found) is Exit.PASS


def test_a_machine_that_refuses_namespaces_is_told_what_workers_lack(tmp_path: Path) -> None:
    text = "refused here: workers have no shared memory, so multiprocessing fails in them; all else holds"
    here = replace(machine(), has_namespaces=lambda: False)
    assert ("namespaces", text, None) in said(here, tmp_path, State.NOTE)


@pytest.mark.parametrize(
    ("flags", "told"), [({"avx2"}, True), ({"avx2", "avx_vnni"}, False), ({"avx512_vnni"}, False), (set(), False)]
)
def test_a_processor_that_saturates_8_bit_products_is_named(flags: set[str], told: bool, tmp_path: Path) -> None:
    names = [name for name, _, _ in said(replace(machine(), cpu_flags=lambda: frozenset(flags)), tmp_path, State.NOTE)]
    assert ("vnni" in names) is told


def other(**changes: object) -> Callable[[Machine], Machine]:
    return lambda here: replace(here, **changes)  # type: ignore[arg-type]  # a test names the fields that it changes


GPU_AGAIN = "pip uninstall -y onnxruntime onnxruntime-gpu, then make setup EXTRAS=gpu,dev"
BOTH = {**WHOLE, "onnxruntime-gpu": "1.31.1"}
ILL: dict[str, tuple[Machine, tuple[str, str, str | None]]] = {
    "no landlock": (
        replace(machine(), missing_walls=lambda: ("Landlock",)),
        (
            "Landlock",
            "not sandboxed: there is no Landlock here, so that a file which gets past the checks can read and write "
            "what you can; each verdict says so",
            "use Linux 5.13 or later with Landlock enabled, or take no files of strangers",
        ),
    ),
    "no seccomp": (
        replace(machine(), missing_walls=lambda: ("seccomp",)),
        (
            "seccomp",
            "not sandboxed: there is no seccomp here, so that a file which gets past the checks can call what you can: "
            "trace other processes, open sockets; each verdict says so",
            "use Linux with seccomp filters on x86_64 or aarch64, or take no files of strangers",
        ),
    ),
    "old python": (
        replace(machine(), python=(3, 10, 4)),
        ("3.10.4", "3.11, 3.12 or 3.13 is needed", "make setup PYTHON=python3.11"),
    ),
    "library absent": (
        machine({name: version for name, version in WHOLE.items() if name != "protobuf"}),
        ("protobuf", "not installed", "make setup"),
    ),
    "library too new": (
        machine({**WHOLE, "protobuf": "7.1.0"}),
        ("protobuf", "7.1.0, and <7,>=6.33.6 is what is tested", "make setup"),
    ),
    "not installed": (
        replace(machine(), requirements=lambda: None),
        ("transload", "not installed: versions are not checked", "make setup"),
    ),
    "another build of onnxruntime": (
        machine({**WHOLE, "onnxruntime-openvino": "1.24.1"}),
        (
            "onnxruntime build",
            "onnxruntime and onnxruntime-openvino overwrite each other",
            "pip uninstall -y onnxruntime onnxruntime-openvino, then install the one that you want",
        ),
    ),
    "both builds of onnxruntime": (
        machine(BOTH, gpus=("NVIDIA H200",)),
        ("onnxruntime build", "onnxruntime and onnxruntime-gpu overwrite each other", GPU_AGAIN),
    ),
    "gpu build overwritten": (
        machine({**WHOLE, "onnxruntime": None, "onnxruntime-gpu": "1.31.1"}, gpus=("NVIDIA H200",)),  # type: ignore[dict-item]  # None: absent
        ("onnxruntime build", "onnxruntime-gpu has lost its CUDA provider library", GPU_AGAIN),
    ),
    "cpu build beside a gpu": (
        machine(gpus=("NVIDIA H200",)),
        ("onnxruntime build", "the CPU build, and a GPU is here", "make setup EXTRAS=gpu,dev"),
    ),
    "no tensorflow": (
        machine(without=("tensorflow",)),
        ("target saved-model", "no open step leads to it", "make setup"),
    ),
    "no onnx: what comes after it is closed too": (
        machine(without=("onnx",)),
        ("target tflite:int8", "no open step leads to it", "make setup"),
    ),
    "no litert": (
        machine(without=("ai_edge_litert",)),
        ("tflite", "needs ai_edge_litert (extra tflite)", "make setup"),
    ),
    "serving program named and absent": (
        replace(machine(), environ={"TRANSLOAD_TFSERVING_BIN": "/opt/tfs"}),
        (
            "tensorflow_model_server",
            "TRANSLOAD_TFSERVING_BIN names /opt/tfs, which does not run",
            "unset it, or name the program",
        ),
    ),
}


@pytest.mark.parametrize("name", ILL)
def test_what_is_ill_is_named_with_its_mend(name: str, tmp_path: Path) -> None:
    here, finding = ILL[name]
    assert finding in said(here, tmp_path, State.FAIL, State.WARN)


def test_a_missing_framework_closes_the_default_run_and_greys_out_only_what_needs_it(tmp_path: Path) -> None:
    found = examine(tmp_path, machine(without=("tensorflow",)))
    assert exit_code(found) is Exit.USAGE
    states = {each.name: each.state for each in found}
    assert states["pt2 -> onnx (torch.onnx-dynamo)"] is State.OK
    assert states["onnx -> saved-model (lowering)"] is State.NOTE
    assert states["onnxruntime"] is State.OK


def test_a_runtime_on_request_that_lacks_its_extra_is_greyed_out_with_what_brings_it(tmp_path: Path) -> None:
    found = {each.name: each for each in examine(tmp_path, machine(without=("openvino",))) if each.part == "runtimes"}
    lacking = found["openvino"]
    assert (lacking.state, lacking.text) == (State.NOTE, "needs openvino (extra openvino)")
    assert lacking.fix == "pip install 'openvino>=2025'"
    provider = found["onnxruntime-openvino"]
    assert provider.state is State.NOTE
    assert provider.text == "needs libonnxruntime_providers_openvino.so of ONNX Runtime (extra onnxruntime-openvino)"


def test_a_warning_does_not_close_the_default_run(tmp_path: Path) -> None:
    assert exit_code(examine(tmp_path, machine({**WHOLE, "protobuf": "7.1.0"}))) is Exit.PASS


def test_the_gpu_build_with_its_library_is_well(tmp_path: Path) -> None:
    (tmp_path / "capi").mkdir()
    (tmp_path / "capi" / "libonnxruntime_providers_cuda.so").touch()
    versions = {"numpy": "2.4.6", "protobuf": "6.33.6", "onnxruntime-gpu": "1.31.1"}
    here = replace(machine(versions, gpus=("NVIDIA H200",)), onnxruntime_folder=lambda: tmp_path)
    assert ("onnxruntime build", "GPU", None) in said(here, tmp_path, State.OK)
    assert ("cuda:0", "NVIDIA H200", None) in said(here, tmp_path, State.OK)


def test_a_store_without_room_is_a_warning_and_one_that_is_a_file_is_a_failure(tmp_path: Path) -> None:
    small = replace(machine(), free_bytes=lambda path: 1_500_000_000)
    mend = "free some space, or name a folder elsewhere with --store"
    assert said(small, tmp_path / "new", State.WARN) == [(str(tmp_path / "new"), "1.5 GB free", mend)]
    (tmp_path / "file").touch()
    closed = (str(tmp_path / "file"), "cannot be written to", "name another folder with --store")
    assert said(machine(), tmp_path / "file", State.FAIL) == [closed]


def test_a_serving_program_on_path_is_found(tmp_path: Path) -> None:
    here = replace(machine(), which=lambda name: f"/usr/bin/{name}")
    assert ("tensorflow_model_server", "/usr/bin/tensorflow_model_server", None) in said(here, tmp_path, State.OK)


CLOSED = "'transload run' cannot work here: 1 thing marked NO."
VERDICTS = [
    ((), 0, "'transload run' can work here."),
    ((Diagnosis("store", "/x", State.FAIL, "cannot be written to"),), 2, CLOSED),
]


@pytest.mark.parametrize(("findings", "status", "last"), VERDICTS)
def test_the_verdict_stands_last_and_is_the_exit_status(
    findings: tuple[Diagnosis, ...],
    status: int,
    last: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("transload.pipeline.cli.doctor.examine", lambda store: findings)
    assert main(["doctor"]) == status
    assert capsys.readouterr().out.splitlines()[-1] == last
    assert main(["doctor", "--json"]) == status
    assert json.loads(capsys.readouterr().out)["exit_code"] == status
