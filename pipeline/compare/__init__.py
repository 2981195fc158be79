"""Two runs compared, and runs over time: pure functions over what run.json holds."""
