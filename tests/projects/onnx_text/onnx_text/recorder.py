"""The values inside a model, for `locate`."""

from transload.converters.minimal_repro.onnx_pieces import OnnxCutter

from .text_file import parse_text


def open_recorder(artifact):
    """Open the graph of an artifact: that of ONNX, which it is."""
    import onnx

    path = artifact.path.with_suffix(".onnx")
    onnx.save(parse_text(artifact.path), path.name)
    return OnnxCutter(path.__class__(path.name))
