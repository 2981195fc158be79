"""Records of models, where they are stored, how they are loaded, and the probes. Imports nothing of other rooms."""

if "." not in __name__:
    raise ImportError("this folder is transload.models: import it by that name")
