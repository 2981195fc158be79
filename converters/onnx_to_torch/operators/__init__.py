"""One small function for each operator, by family."""
