"""What a model is, and where it is kept. Imports nothing of the other rooms."""
