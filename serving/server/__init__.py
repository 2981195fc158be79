"""The embedded server: speaks TF Serving's protocols over any in-process session."""

from .embedded import EmbeddedServer, open_server

__all__ = ["EmbeddedServer", "open_server"]
