"""Bundles: what each serving system expects of a model, with golden samples and a check of the endpoint."""
