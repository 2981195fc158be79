"""A user's file: imported, checked, described."""

from collections import Counter

from transload.converters.readers.file_import import checked_file, store_file
from transload.converters.readers.reader_records import FileDescription
from transload.converters.readers.requested_inputs import apply_request
from transload.models.formats import Format
from transload.models.signature import Signature, TensorSpec

from .text_file import parse_text


def import_text(job):
    """Import a file: FileOptions -> FileFacts. Raises BadRequest where it is none."""
    options, path = checked_file(job, Format("onnx-text"))
    signature = apply_request(signature_of(parse_text(path)), options.inputs)
    return store_file(job, Format("onnx-text"), signature, path)


def check_text(artifact, *, trust):
    """Check the file of an artifact. Raises BadRequest."""
    parse_text(artifact.path)


def describe_text(path):
    """Describe a file."""
    model = parse_text(path)
    signature = signature_of(model)
    return FileDescription(
        producer=model.producer_name,
        versions=(f"IR {model.ir_version}",),
        inputs=tuple(map(str, signature.inputs)),
        outputs=tuple(map(str, signature.outputs)),
        operators=dict(Counter(node.op_type for node in model.graph.node).most_common()),
    )


def signature_of(model):
    """Return the signature that a model declares."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(spec_of(value) for value in model.graph.input if value.name not in weights)
    return Signature(inputs, tuple(map(spec_of, model.graph.output)))


def spec_of(value):
    """Return the name, dtype and shape of a value."""
    from onnx import helper

    tensor = value.type.tensor_type
    shape = tuple(axis.dim_param or axis.dim_value for axis in tensor.shape.dim)
    return TensorSpec(value.name, helper.tensor_dtype_to_np_dtype(tensor.elem_type).name, shape)
