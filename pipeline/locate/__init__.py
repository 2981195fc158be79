"""Find where a copy went wrong: the first operator whose result its inputs do not explain."""
