"""What ONNX operators say: attributes, defaults and the wordings of the opsets, read once for both back-ends.

Each function reads a node through its NodeReader, which notes what was read, and returns a plain value or a frozen
record. Defaults are the specification's own (node_reader.py). What is a single attribute, an operator function reads.
"""
