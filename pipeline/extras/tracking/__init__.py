"""Runs in MLflow: sent to a tracking server once they are finished, and read back from it. Nothing else talks to it."""
