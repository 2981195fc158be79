"""From the annotation tool to arrays."""
