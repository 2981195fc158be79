"""Steps on the nodes of a Ray cluster. Ray is imported inside functions, and only where it was asked for."""
