"""Operators on images and boxes: resizing, sampling, regions, detection."""
