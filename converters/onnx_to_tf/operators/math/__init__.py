"""Arithmetic, logic, matrix products, reductions, quantised numbers and signals."""
