"""Hostile files over every format that is read: each is written by code, and its payload leaves a marker or nothing.

`python -m tests.hostile.corpus --out FILE` takes each through the command that reads it (docs/security.md).
"""
