"""Stores that machines share: behind a URL, with a cache on this machine, and records that are sealed."""
