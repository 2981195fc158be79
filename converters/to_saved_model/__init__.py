"""Conversion steps whose target is a SavedModel."""
