"""The result of a run: the schema of run.json, the release gate, the environment."""
