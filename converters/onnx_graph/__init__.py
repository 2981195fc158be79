"""An ONNX model as the converters from it read it: nodes with their origins, bodies, functions, patterns, and
semantics."""
