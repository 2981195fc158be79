"""One format into another. A table of steps (steps.py), and one module per step."""

if "." not in __name__:
    raise ImportError("this folder is transload.converters: import it by that name")
