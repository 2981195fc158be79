"""Who leaves."""
