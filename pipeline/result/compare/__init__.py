"""Two runs compared: pure functions over what run.json holds."""
