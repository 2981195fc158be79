"""What the folder of a SavedModel says of itself."""

from __future__ import annotations

from pathlib import Path

from ...conversion_records import StoredWeights
from ...embedded_metadata import EXTRA_FILE, KEY
from ..describe_file import COPY_AGAIN, MOST_TEXT, counted, plain_text, side_texts, signature_or_note, text_of
from ..file_content import whole_file
from ..reader_records import FileDescription
from .saved_model_folder import read_saved_model, signature_of_saved_model


def describe_saved_model(path: Path) -> FileDescription:
    """Describe a folder. Raises BadRequest."""
    graph = read_saved_model(path, trust=True)
    with whole_file(path, "SavedModel", COPY_AGAIN):
        nodes = [*graph.graph_def.node, *(node for part in graph.graph_def.library.function for node in part.node_def)]
        count = sum(node.op in (b"VarHandleOp", b"VariableV2", b"Variable") for node in graph.graph_def.node)
        size = sum(file.stat().st_size for file in (path / "variables").glob("variables.data-*"))
        signature, note = signature_or_note(lambda: signature_of_saved_model(graph, path))
        version = bytes(graph.meta_info_def.tensorflow_version).decode(errors="replace")
        names = ", ".join(sorted(graph.signature_def))
        tags = b", ".join(graph.meta_info_def.tags).decode(errors="replace")
        return FileDescription(
            producer=plain_text(f"TensorFlow {version}" if version else ""),
            versions=(plain_text(f"tags {tags}"), plain_text(f"signatures {names}")),
            inputs=side_texts(signature, "inputs"),
            outputs=side_texts(signature, "outputs"),
            operators=counted(node.op.decode(errors="replace") for node in nodes),
            weights=(StoredWeights(dtype="variables", tensors=count, bytes=size),) if count else (),
            metadata=_extra_text(path / EXTRA_FILE),
            notes=note,
        )


def _extra_text(file: Path) -> dict[str, str]:
    if not file.is_file() or file.stat().st_size > MOST_TEXT:
        return {}
    return {KEY: text_of(file.read_bytes())}
