"""One format into another. A table of steps (steps.py), and one module per step."""
