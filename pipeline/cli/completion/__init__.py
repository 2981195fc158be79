"""Completion in a shell: the protocol, and the values of options."""
