"""One function for each ONNX operator, grouped by family and registered by the decorator `lowers`."""
