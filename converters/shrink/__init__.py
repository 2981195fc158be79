"""Pieces cut out of a model, a module for each format: what pipeline/shrink/ tries steps on."""
