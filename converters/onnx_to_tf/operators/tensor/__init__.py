"""Operators on shapes and on the places of elements: reshape, slice, gather, join, pad."""
