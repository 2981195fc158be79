"""The card of an artifact's folder: what it is, how it was verified, how it is called (docs/design/artifacts.md)."""
