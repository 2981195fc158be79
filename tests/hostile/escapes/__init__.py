"""Escapes from a worker, tried from inside of one."""
