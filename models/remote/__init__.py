"""A store behind a URL, with a cache on this machine."""
