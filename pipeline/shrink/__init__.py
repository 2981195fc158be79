"""The smallest piece of a model that a step fails at: searched for, tried, and written as a script of its own."""
