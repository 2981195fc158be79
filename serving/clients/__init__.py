"""Sessions over a socket: the served runtimes, seen from the caller."""
