"""TF Serving's batching parameters: protobuf text, as its program takes by --batching_parameters_file.

tensorflow-serving-api lacks the file that declares the message; its fields are written here as
tensorflow/serving: servables/tensorflow/session_bundle_config.proto publishes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ....models.errors import BadRequest
from ....models.untrusted_files import read_plain
from ...wire.tfserving_messages import Message

_NUMBERS = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")
_FIX = "write it as TF Serving's documentation of batching does"


@dataclass(frozen=True, slots=True)
class BatchingParameters:
    """How requests to one version are gathered. The defaults are TF Serving's (batching/basic_batch_scheduler.h)."""

    max_rows: int = 1000  # of a request, and of a batch where `preferred_rows` says nothing
    timeout_s: float = 0.0  # for which the first request of a batch waits for others
    max_batches: int = 10  # that wait
    allowed_sizes: tuple[int, ...] = ()  # rising; a batch is padded to the next one. Empty: any size
    preferred_rows: int | None = None  # at which a batch is full; a request with more is answered alone
    sets_size: bool = False  # `max_rows` is the user's

    def prefer(self, rows: int | None) -> BatchingParameters:
        """Return parameters whose batches are full at `rows`, unless the user has set a size; None: as they are."""
        return self if rows is None or self.sets_size else replace(self, preferred_rows=min(rows, self.max_rows))


# Of --enable-batching alone: batches as large as TF Serving's, and no limit of rows, which nobody has set.
UNLIMITED = BatchingParameters(max_rows=1 << 31, preferred_rows=BatchingParameters().max_rows)


@cache
def batching_message() -> Message:
    """Return the class of the message BatchingParameters."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

    file = descriptor_pb2.FileDescriptorProto(name="batching.proto", package="tensorflow.serving", syntax="proto3")
    file.dependency.append("google/protobuf/wrappers.proto")
    message = file.message_type.add(name="BatchingParameters")
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, name in enumerate((*_NUMBERS, "thread_pool_name"), 1):
        kind = f".google.protobuf.{'Int64Value' if name in _NUMBERS else 'StringValue'}"
        message.field.add(name=name, number=number, type=kinds.TYPE_MESSAGE, label=1, type_name=kind)
    message.field.add(name="allowed_batch_sizes", number=6, type=kinds.TYPE_INT64, label=3)
    message.field.add(name="pad_variable_length_inputs", number=7, type=kinds.TYPE_BOOL, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.serving.BatchingParameters"))


def read_batching_file(path: Path) -> BatchingParameters:
    """Read a file of --batching-parameters-file. Threads are one per version, whatever it says.
    Raises BadRequest where it cannot be read, or asks for what is not here."""
    from google.protobuf import text_format

    try:
        message = text_format.Parse(read_plain(path).decode(), batching_message()())
    except (OSError, UnicodeDecodeError, text_format.ParseError) as error:
        raise BadRequest(f"{path} holds no batching parameters: {error}", fix=_FIX) from error
    if message.pad_variable_length_inputs:
        raise BadRequest(
            f"{path} asks for pad_variable_length_inputs, which transload does not do",
            fix="remove it: requests are gathered with others of their sizes",
        )
    values = {name: getattr(message, name).value for name in _NUMBERS if message.HasField(name)}
    default = BatchingParameters()
    parameters = BatchingParameters(
        values.get("max_batch_size", default.max_rows),
        values.get("batch_timeout_micros", 0) / 1e6,
        values.get("max_enqueued_batches", default.max_batches),
        tuple(message.allowed_batch_sizes),
        sets_size="max_batch_size" in values,
    )
    if fault := _fault_of(parameters):
        raise BadRequest(f"{path}: {fault}", fix=_FIX)
    return parameters


def _fault_of(parameters: BatchingParameters) -> str:
    sizes = parameters.allowed_sizes
    if parameters.max_rows < 1 or parameters.max_batches < 1:
        return "max_batch_size and max_enqueued_batches are 1 or more"
    if parameters.timeout_s < 0:
        return "batch_timeout_micros is 0 or more"
    if sizes and (list(sizes) != sorted({*sizes}) or sizes[0] < 1 or sizes[-1] != parameters.max_rows):
        return f"allowed_batch_sizes rise, and the last is max_batch_size, {parameters.max_rows}; got {list(sizes)}"
    return ""
