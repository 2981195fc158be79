"""Modules that another interpreter runs, with a user's own torch: Python 3.9, the standard library and torch alone."""
