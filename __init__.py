"""transload carries a trained PyTorch model into the formats it is served in, proves that each copy still gives
the same answers, measures each where it will run, and says what may be released."""

__version__ = "0.1.0"
