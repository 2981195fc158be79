"""The embedded server: speaks TF Serving's protocols over any in-process session."""
