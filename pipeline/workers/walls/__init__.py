"""What the kernel holds of a worker: files (Landlock), system calls (seccomp), namespaces and capabilities.

These modules use the standard library alone and run on Python 3.9: other interpreters than ours raise the walls, too.
"""
