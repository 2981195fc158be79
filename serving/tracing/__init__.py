"""What happens inside a model while it answers: its operators, their values, and where they stand in the code."""
