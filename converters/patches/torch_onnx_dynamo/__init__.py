"""Translations that torch's dynamo ONNX exporter lacks or has wrong, and the errors it stops with."""
