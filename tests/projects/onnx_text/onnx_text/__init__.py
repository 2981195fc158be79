"""The rows of the format. Every command reads them, so no framework is imported here."""

from transload.converters.steps import Step
from transload.models.formats import FileHead, Format, FormatSpec, Snippet, Target
from transload.serving.runtimes.runtime_table import Runtime

SNIPPET = Snippet(
    array="np.full({shape}, {value}, {dtype!r})",
    text="""import numpy as np
from google.protobuf import text_format
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
model = text_format.Parse(open({file}).read(), ModelProto())
outputs = dict(zip({names}, ReferenceEvaluator(model).run({names}, {inputs})))
""",
)


def has_content(head: FileHead) -> bool:
    """Whether a file begins as protobuf's text of an ONNX model."""
    return head.data.startswith(b"ir_version:")


FORMAT = FormatSpec(
    name="onnx-text",
    title="ONNX as text",
    payload="model.onnxtxt",
    runtime="onnx-reference",
    suffixes=(".onnxtxt",),
    requires=("onnx", "google.protobuf"),
    has_content=has_content,
    snippet=lambda **_: SNIPPET,
    reader="onnx_text.reader:import_text",
    checker="onnx_text.reader:check_text",
    describer="onnx_text.reader:describe_text",
    recorder="onnx_text.recorder:open_recorder",
)
STEP = Step(
    name="onnx-as-text",
    source=Target(Format("onnx")),
    target=Target(Format("onnx-text")),
    entry="onnx_text.step:text_from_onnx",
    requires=("onnx", "google.protobuf"),
    cost=1,
)
RUNTIME = Runtime("onnx-reference", (Format("onnx-text"),), "onnx_text.session:open_session", ("onnx",))
