"""The nets of this repository."""
