"""Load on a runtime: requests at a rate or over several connections, and what they saw."""
