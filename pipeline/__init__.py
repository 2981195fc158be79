"""A run, from request to verdict."""

if "." not in __name__:
    raise ImportError("this folder is transload.pipeline: import it by that name")
