"""Control flow and containers: If, Loop, Scan, Sequence, Optional."""
