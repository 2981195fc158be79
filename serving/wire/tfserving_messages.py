"""TF Serving's official messages, without importing TensorFlow.

The generated modules of tensorflow-serving-api import all of TensorFlow (measured: 3.5 s, 732 MB). Their serialized
descriptors are plain bytes literals, so they are read out of the files and put into a descriptor pool of our own.

A second pool declares `TensorProto.float_val` and `double_val` as bytes. On the wire a packed repeated field and a
bytes field are the same (https://protobuf.dev/programming-guides/encoding/#packed), so that the values of a request
come as one buffer and not as a list: 17 us and not 3.2 ms for one 224 x 224 image. What that pool can misread, and how
it is found out, is said in tensor_proto.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

from ...models.errors import ToolMissing

Message: TypeAlias = Any  # classes made at run time have no static type

AVAILABLE = 30  # ModelVersionStatus.AVAILABLE
DEVICE_KEY = "x-transload-device"  # metadata and header that say where the embedded server's model runs
_APIS = "tensorflow_serving/apis"
_ROOTS = tuple(
    f"{_APIS}/{name}.proto"
    for name in ("predict", "get_model_metadata", "get_model_status", "model", "model_management", "prediction_log")
)
_CONFIG = "tensorflow_serving/config/model_server_config.proto"
_SERVICES = tuple(f"{_APIS}/{name}_service.proto" for name in ("prediction", "model"))
_INSTALL = "pip install 'tensorflow-serving-api>=2.21,<2.22'"
_TENSOR = "tensorflow/core/framework/tensor.proto"
_MESSAGES = (
    "tensorflow.TensorProto", "tensorflow.Example",
    *(f"tensorflow.serving.{call}{side}" for call in ("Predict", "GetModelMetadata", "GetModelStatus")
      for side in ("Request", "Response")),
    "tensorflow.serving.SignatureDefMap",
    *(f"tensorflow.serving.{call}{side}" for call in ("Classification", "Regression", "MultiInference")
      for side in ("Request", "Response")),
    "tensorflow.serving.InferenceTask",
    "tensorflow.serving.ReloadConfigRequest", "tensorflow.serving.ReloadConfigResponse",
    "tensorflow.serving.ModelServerConfig",
)  # fmt: skip


@cache
def stock() -> SimpleNamespace:
    """Return the message classes as they are published, by their names."""
    return _messages(packed_as_bytes=False)


@cache
def packed() -> SimpleNamespace:
    """Return the message classes with `float_val` and `double_val` as bytes."""
    return _messages(packed_as_bytes=True)


@cache
def decode_error() -> type[Exception]:
    """Return the error of bytes that are no message."""
    from google.protobuf.message import DecodeError

    error: type[Exception] = DecodeError
    return error


def _messages(*, packed_as_bytes: bool) -> SimpleNamespace:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for name, data in _files(_ROOTS).items():
        file = descriptor_pb2.FileDescriptorProto.FromString(data)
        if packed_as_bytes and name == _TENSOR:
            _declare_as_bytes(file)
        pool.Add(file)
    types = [pool.FindMessageTypeByName(name) for name in _MESSAGES]
    named = {kind.name: message_factory.GetMessageClass(kind) for kind in types}
    return SimpleNamespace(**named, all_classes=_all_classes(pool, _files(_ROOTS)))


def _all_classes(pool: Message, names: Iterable[str]) -> list[Message]:
    """Return the classes of all messages of these files, to be kept.
    protobuf makes the class of a field's message when it is first asked for, and holds it weakly: one that is collected
    in the moment in which a message is made of it ends the process by SIGSEGV (in 1 of 15 runs of four clients)."""
    from google.protobuf import message_factory

    kinds = [kind for name in names for kind in pool.FindFileByName(name).message_types_by_name.values()]
    for kind in kinds:
        kinds.extend(kind.nested_types)
    return [message_factory.GetMessageClass(kind) for kind in kinds]


def _declare_as_bytes(file: Message) -> None:
    for field in file.message_type[0].field:
        if field.name in ("float_val", "double_val"):
            field.type = field.TYPE_BYTES
            field.label = field.LABEL_OPTIONAL
            field.ClearField("options")  # [packed = true] is for numbers


def service_files() -> list[bytes]:
    """Return the serialized descriptors of the services' files, each after those that it imports."""
    return list(_files(_SERVICES).values())


@cache
def _files(roots: tuple[str, ...]) -> dict[str, bytes]:
    """Return serialized file descriptors by name, each after those that it imports."""
    from google.protobuf import descriptor_pb2

    descriptors: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name not in descriptors:
            data = _descriptor(name)
            for needed in descriptor_pb2.FileDescriptorProto.FromString(data).dependency:
                add(needed)
            descriptors[name] = data

    for root in roots:
        add(root)
    return descriptors


def _descriptor(name: str) -> bytes:
    """Return the bytes that the module generated from `name` hands to AddSerializedFile."""
    for node in ast.walk(ast.parse(_module(name).read_bytes())):
        match node:
            case ast.Call(func=ast.Attribute(attr="AddSerializedFile"), args=[ast.Constant(value=bytes() as data)]):
                return data
    raise ToolMissing(f"{_module(name)} holds no descriptor", fix=_INSTALL)


def _module(name: str) -> Path:
    """Find the generated module's file. Looking a top package up does not import it."""
    if name.startswith("xla/"):  # where TensorFlow's wheel keeps what is imported by this name
        name = f"tensorflow/compiler/{name}"
    package, _, rest = name.partition("/")
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        file = Path(folder) / f"{rest.removesuffix('.proto')}_pb2.py"
        if file.is_file():
            return file
    raise ToolMissing(f"TF Serving's messages are not here: {name} is in no installed package", fix=_INSTALL)
