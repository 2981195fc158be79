"""What a model is, and where it is kept. Imports nothing of the other rooms."""

if "." not in __name__:
    raise ImportError("this folder is transload.models: import it by that name")
