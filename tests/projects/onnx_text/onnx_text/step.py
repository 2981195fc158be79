"""The step from ONNX."""

from transload.converters.write_converted import write_converted
from transload.models.artifact import read_artifact
from transload.models.formats import Format, Target

from .text_file import write_text


def text_from_onnx(job):
    """Write the model as text."""
    import onnx

    source, form = read_artifact(job.inputs["source"]), Format("onnx-text")
    write_text(onnx.load(source.path), job.out / form.spec.payload)
    write_converted(job, Target(form), source.signature)
    return {}
