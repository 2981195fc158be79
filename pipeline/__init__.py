"""A run, from request to verdict."""
