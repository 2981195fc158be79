"""Latency that may be compared: interleaved rounds, all samples kept, doubts listed."""
