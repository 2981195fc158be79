"""Pieces cut out of a model, one module per format; pipeline/minimal_repro/ tries conversion steps on them."""
