"""The file: protobuf's text of an ONNX model."""

from pathlib import Path

from transload.models.errors import BadRequest


def write_text(model, path: Path) -> None:
    """Write a model."""
    from google.protobuf import text_format

    path.write_text(text_format.MessageToString(model))


def parse_text(path: Path):
    """Read a model. Raises BadRequest where the file is none."""
    import onnx
    from google.protobuf import text_format

    try:
        model = text_format.Parse(path.read_text(), onnx.ModelProto())
        onnx.checker.check_model(model)
    except (text_format.ParseError, UnicodeDecodeError, onnx.checker.ValidationError) as error:
        raise BadRequest(f"{path} is no whole ONNX model in text: {error}", fix="copy it again") from error
    return model
