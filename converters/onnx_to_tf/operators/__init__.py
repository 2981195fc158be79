"""One function for each ONNX operator, grouped by family. Registered by the decorator `lowers`."""
