"""Messages of the Open Inference Protocol over gRPC (package `inference`), without a generated module.

Names and numbers are those of the published protocol with Triton's extensions, which KServe's messages are a part of.
Of ModelConfig and the statistics only the fields that a server here fills in are declared: a client sees the others as
unset.

A second pool declares the `contents` of tensors as bytes. A message and a bytes field are the same on the wire, so
that oip_tensors.py sees how much a tensor brings before memory is spent on its values.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any, TypeAlias

Message: TypeAlias = Any  # classes made at run time have no static type

PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"
FILE = "grpc_service.proto"

# A message's fields as name=number:type. `*` repeats a field, `{}` maps strings to a type, `?` is one of the choices,
# and a capital letter begins the name of a message or enum.
_MESSAGES = {
    "ServerLiveRequest": "",
    "ServerLiveResponse": "live=1:bool",
    "ServerReadyRequest": "",
    "ServerReadyResponse": "ready=1:bool",
    "ModelReadyRequest": "name=1:string version=2:string",
    "ModelReadyResponse": "ready=1:bool",
    "ServerMetadataRequest": "",
    "ServerMetadataResponse": "name=1:string version=2:string extensions=3:string*",
    "ModelMetadataRequest": "name=1:string version=2:string",
    "ModelMetadataResponse": (
        "name=1:string versions=2:string* platform=3:string inputs=4:ModelMetadataResponse.TensorMetadata* "
        "outputs=5:ModelMetadataResponse.TensorMetadata*"
    ),
    "ModelMetadataResponse.TensorMetadata": "name=1:string datatype=2:string shape=3:int64*",
    "InferParameter": (
        "bool_param=1:bool? int64_param=2:int64? string_param=3:string? double_param=4:double? uint64_param=5:uint64?"
    ),
    "InferTensorContents": (
        "bool_contents=1:bool* int_contents=2:int32* int64_contents=3:int64* uint_contents=4:uint32* "
        "uint64_contents=5:uint64* fp32_contents=6:float* fp64_contents=7:double* bytes_contents=8:bytes*"
    ),
    "ModelInferRequest": (
        "model_name=1:string model_version=2:string id=3:string parameters=4:{InferParameter} "
        "inputs=5:ModelInferRequest.InferInputTensor* outputs=6:ModelInferRequest.InferRequestedOutputTensor* "
        "raw_input_contents=7:bytes*"
    ),
    "ModelInferRequest.InferInputTensor": (
        "name=1:string datatype=2:string shape=3:int64* parameters=4:{InferParameter} contents=5:InferTensorContents"
    ),
    "ModelInferRequest.InferRequestedOutputTensor": "name=1:string parameters=2:{InferParameter}",
    "ModelInferResponse": (
        "model_name=1:string model_version=2:string id=3:string parameters=4:{InferParameter} "
        "outputs=5:ModelInferResponse.InferOutputTensor* raw_output_contents=6:bytes*"
    ),
    "ModelInferResponse.InferOutputTensor": (
        "name=1:string datatype=2:string shape=3:int64* parameters=4:{InferParameter} contents=5:InferTensorContents"
    ),
    "ModelStreamInferResponse": "error_message=1:string infer_response=2:ModelInferResponse",
    "ModelConfigRequest": "name=1:string version=2:string",
    "ModelConfigResponse": "config=1:ModelConfig",
    "ModelConfig": (
        "name=1:string platform=2:string max_batch_size=4:int32 input=5:ModelInput* output=6:ModelOutput* "
        "backend=17:string"
    ),
    "ModelInput": "name=1:string data_type=2:DataType dims=4:int64*",
    "ModelOutput": "name=1:string data_type=2:DataType dims=3:int64*",
    "ModelStatisticsRequest": "name=1:string version=2:string",
    "ModelStatisticsResponse": "model_stats=1:ModelStatistics*",
    "ModelStatistics": (
        "name=1:string version=2:string last_inference=3:uint64 inference_count=4:uint64 execution_count=5:uint64 "
        "inference_stats=6:InferStatistics"
    ),
    "StatisticDuration": "count=1:uint64 ns=2:uint64",
    "InferStatistics": (
        "success=1:StatisticDuration fail=2:StatisticDuration queue=3:StatisticDuration "
        "compute_input=4:StatisticDuration compute_infer=5:StatisticDuration compute_output=6:StatisticDuration "
        "cache_hit=7:StatisticDuration cache_miss=8:StatisticDuration"
    ),
    "ModelRepositoryParameter": "bool_param=1:bool? int64_param=2:int64? string_param=3:string? bytes_param=4:bytes?",
    "RepositoryIndexRequest": "repository_name=1:string ready=2:bool",
    "RepositoryIndexResponse": "models=1:RepositoryIndexResponse.ModelIndex*",
    "RepositoryIndexResponse.ModelIndex": "name=1:string version=2:string state=3:string reason=4:string",
    "RepositoryModelLoadRequest": (
        "repository_name=1:string model_name=2:string parameters=3:{ModelRepositoryParameter}"
    ),
    "RepositoryModelLoadResponse": "model_name=1:string isLoaded=2:bool",  # KServe's; Triton's is empty
    "RepositoryModelUnloadRequest": (
        "repository_name=1:string model_name=2:string parameters=3:{ModelRepositoryParameter}"
    ),
    "RepositoryModelUnloadResponse": "model_name=1:string isUnloaded=2:bool",
}
_DATA_TYPES = (
    "INVALID", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "FP32", "FP64", "STRING", "BF16",
)  # fmt: skip
METHODS = (
    "ServerLive", "ServerReady", "ServerMetadata", "ModelReady", "ModelMetadata", "ModelInfer", "ModelConfig",
    "ModelStatistics", "RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload",
)  # fmt: skip


@cache
def messages() -> SimpleNamespace:
    """Return the message classes as they are published, by the names of their top messages."""
    return _classes(contents_as_bytes=False)


@cache
def unread() -> SimpleNamespace:
    """Return the message classes in which the `contents` of tensors are bytes that have not been read."""
    return _classes(contents_as_bytes=True)


def service_file() -> bytes:
    """Return the serialized descriptor of the service and of all its messages, for reflection."""
    data: bytes = _file(contents_as_bytes=False).SerializeToString()
    return data


def _classes(*, contents_as_bytes: bool) -> SimpleNamespace:
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file(contents_as_bytes=contents_as_bytes))
    types = {name: pool.FindMessageTypeByName(f"{PACKAGE}.{name}") for name in _MESSAGES if "." not in name}
    return SimpleNamespace(**{name: message_factory.GetMessageClass(kind) for name, kind in types.items()})


def _file(*, contents_as_bytes: bool) -> Message:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    data_type = file.enum_type.add(name="DataType")
    for number, name in enumerate(_DATA_TYPES):
        data_type.value.add(name=f"TYPE_{name}", number=number)
    descriptors: dict[str, Message] = {}
    for path, fields in _MESSAGES.items():
        outer, _, name = path.rpartition(".")
        siblings = descriptors[outer].nested_type if outer else file.message_type
        message = descriptors[path] = siblings.add(name=name)
        for text in fields.split():
            if contents_as_bytes and text == "contents=5:InferTensorContents":
                text = "contents=5:bytes"  # noqa: PLW2901
            _add_field(message, path, text)
    service = file.service.add(name=SERVICE.rpartition(".")[2])
    for method in METHODS:
        name = f".{PACKAGE}.{method}"
        service.method.add(name=method, input_type=f"{name}Request", output_type=f"{name}Response")
    return file


def _add_field(message: Message, path: str, text: str) -> None:
    """Add a field, written as in _MESSAGES, to the descriptor of the message at `path`."""
    label, kind = text.split(":")
    name, number = label.split("=")
    field = message.field.add(name=name, number=int(number))
    field.label = field.LABEL_REPEATED if kind[-1] in "*}" else field.LABEL_OPTIONAL
    if kind[0] == "{":
        entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        _add_field(entry, path, "key=1:string")
        _add_field(entry, path, f"value=2:{kind.strip('{}')}")
        kind = f"{path}.{entry.name}"
    elif kind[-1] == "?":
        if not message.oneof_decl:
            message.oneof_decl.add(name="choice")
        field.oneof_index = 0
    kind = kind.rstrip("*?")
    if kind[0].islower():
        field.type = getattr(field, f"TYPE_{kind.upper()}")
    else:
        field.type = field.TYPE_ENUM if kind == "DataType" else field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{kind}"
