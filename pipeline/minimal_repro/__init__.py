"""Search for the smallest piece of a model that a conversion step fails on, and write it as a script."""
