"""Conversion steps whose target is TFLite, in four precisions, and the repairs that runtimes need."""
