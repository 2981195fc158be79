"""An ONNX model as the converters from it read it: nodes with their origins, bodies, patterns, and semantics."""
