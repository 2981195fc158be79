"""The one way in for every command: the model, its data and the reference outputs."""
