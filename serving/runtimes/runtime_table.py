"""The table of runtimes, as data: what executes which format where. Imports no framework.

An entry is called in a worker as `entry(folder, device, threads) -> Session` for the runtimes in process, where
`folder` is an artifact's (torch takes a source's, too), and as `entry(address, model, signature, timeout_s) -> Session`
for the served ones (serving/clients/). Settings of a runtime's own have defaults.

A runtime that is `on_request` is taken only where it is named. Behind the Open Inference Protocol every format can be
measured, which would more than double a run by default: `run` measures the formats of SERVED_FORMATS behind one of its
protocols; TF Serving's protocols are measured for a SavedModel always.
Compilers and further libraries take a format that another runtime takes, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ...models.environments import PythonEnvironment
from ...models.extensible_table import ExtensibleTable, UnfitRow, check_entry, check_requires
from ...models.formats import Format

_HERE = "transload.serving.runtimes"
_CLIENTS = "transload.serving.clients"
_BOTH = ("cpu", "cuda")
# The embedded server speaks all protocols, whichever of them is measured.
_SERVER = (
    "grpc", "grpc_health", "grpc_reflection", "uvloop", "httptools", "orjson",
    "tensorflow_serving", "tensorflow",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Runtime:
    """One way to run an artifact."""

    name: str
    takes: tuple[Format, ...]
    entry: str
    requires: tuple[str, ...]  # modules that the worker must be able to find
    devices: tuple[str, ...] = ("cpu",)
    service: str = ""  # of a served one: the listener of its server that it talks to, "grpc" or "rest"
    tfserving: bool = False  # TensorFlow's own server can answer in place of ours
    on_request: bool = False
    flex: bool = False  # takes, of its format, what holds TensorFlow's operators, and nothing else
    environment: PythonEnvironment | None = None  # another Python that may run it
    compiles: bool = False  # starts the system's C++ compiler, and its worker may
    provider: str = ""  # of ONNX Runtime's: the execution provider that the installed build must have, as "openvino"
    int64: bool = True  # computes int64 as such; else in int32, and refuses larger integers
    extra: str = ""  # of transload, which brings what a plain installation lacks
    takes_all: bool = False  # takes artifacts of every format, those that packages bring among them
    package: str = ""  # name and version of the third party that provides it; empty if it is ours

    @property
    def served(self) -> bool:
        """Whether a server holds the model, and not this process."""
        return bool(self.service)

    def accepts(self, form: Format) -> bool:
        """Return whether it takes artifacts of a format."""
        return self.takes_all or form in self.takes


_tfserving = partial(Runtime, takes=(Format.SAVED_MODEL,), requires=_SERVER, devices=_BOTH, tfserving=True)
_oip = partial(
    Runtime,
    takes=(Format.PT2, Format.TORCHSCRIPT, Format.ONNX, Format.SAVED_MODEL, Format.TFLITE, Format.KERAS),
    takes_all=True,
    requires=_SERVER,
    devices=_BOTH,
    on_request=True,
)
_ort = partial(Runtime, takes=(Format.ONNX,), requires=("onnxruntime",), on_request=True)
_inductor = partial(Runtime, takes=(Format.PT2,), requires=("torch",), on_request=True, compiles=True)
_OWN = (
    Runtime("torch", (Format.PT2,), f"{_HERE}.torch_eager_session:open_session", ("torch",), _BOTH),
    Runtime("torchscript", (Format.TORCHSCRIPT,), f"{_HERE}.torchscript_session:open_session", ("torch",), _BOTH),
    Runtime("onnxruntime", (Format.ONNX,), f"{_HERE}.onnxruntime_session:open_session", ("onnxruntime",), _BOTH),
    Runtime("tensorflow", (Format.SAVED_MODEL,), f"{_HERE}.tensorflow_session:open_session", ("tensorflow",), _BOTH),
    Runtime("tflite", (Format.TFLITE,), f"{_HERE}.tflite_session:open_session", ("ai_edge_litert",)),
    Runtime(
        "tflite-flex",
        (Format.TFLITE,),
        f"{_HERE}.tflite_session:open_flex_session",
        ("tensorflow",),
        flex=True,
        environment=PythonEnvironment("flex", until="2.18"),
    ),
    Runtime("keras", (Format.KERAS,), f"{_HERE}.keras_session:open_session", ("tensorflow", "keras")),
    _inductor(name="torch-compile", entry=f"{_HERE}.torch_compile_session:open_session"),
    _inductor(name="aotinductor", entry=f"{_HERE}.aotinductor_session:open_session"),
    Runtime(
        "tensorflow-xla",
        (Format.SAVED_MODEL,),
        f"{_HERE}.tensorflow_xla_session:open_session",
        ("tensorflow",),
        on_request=True,
    ),
    Runtime(
        "openvino",
        (Format.ONNX,),
        f"{_HERE}.openvino_session:open_session",
        ("openvino",),
        on_request=True,
        int64=False,
        extra="openvino",
    ),
    _ort(
        name="onnxruntime-openvino",
        entry=f"{_HERE}.onnxruntime_provider_session:open_openvino",
        provider="openvino",
        int64=False,
        extra="onnxruntime-openvino",
    ),
    _ort(
        name="onnxruntime-tensorrt",
        entry=f"{_HERE}.onnxruntime_provider_session:open_tensorrt",
        devices=("cuda",),
        provider="tensorrt",
        extra="gpu",
    ),
    _tfserving(name="tfserving-grpc", entry=f"{_CLIENTS}.tfserving_grpc_client:open_session", service="grpc"),
    _tfserving(name="tfserving-rest", entry=f"{_CLIENTS}.tfserving_rest_client:open_session", service="rest"),
    _oip(name="oip-grpc", entry=f"{_CLIENTS}.oip_grpc_client:open_session", service="grpc"),
    _oip(name="oip-http", entry=f"{_CLIENTS}.oip_http_client:open_session", service="rest"),
)


def _check_runtime(row: Runtime, known: Mapping[str, Runtime]) -> None:  # noqa: ARG001  (a table's check gets the rows before, too)
    """Raise UnfitRow where a runtime of a package cannot be one."""
    if row.served or not row.takes or not all(isinstance(form, Format) for form in row.takes):
        raise UnfitRow(f"{row.name} takes {row.takes!r}, and a runtime of a package runs some Formats in process")
    check_requires(row.name, row.requires)
    check_entry(row.name, row.entry)


RUNTIMES: ExtensibleTable[Runtime] = ExtensibleTable("runtime", Runtime, _OWN, _check_runtime)
# What `run` holds behind one protocol, so that runtimes are compared like with like.
SERVED_ALIKE = "oip-grpc"
SERVED_FORMATS = (Format.TORCHSCRIPT, Format.ONNX, Format.SAVED_MODEL, Format.TFLITE)


def default_runtimes() -> tuple[str, ...]:
    """Return the runtimes that are taken where none is named."""
    return tuple(name for name, runtime in RUNTIMES.items() if not runtime.on_request)


def runtimes_for(form: Format, flex: Sequence[str] = ()) -> tuple[Runtime, ...]:
    """Every runtime that takes artifacts of this format. `flex`: the operators in it that need the Flex delegate."""
    return tuple(runtime for runtime in RUNTIMES.values() if runtime.accepts(form) and runtime.flex == bool(flex))
