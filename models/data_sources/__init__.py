"""Samples as people have them: arrays, folders of images, tables, and code that gives them."""
