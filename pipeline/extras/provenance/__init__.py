"""The statement beside an artifact: what made it from what, with which verdict, signed or not (docs/verify.md)."""
