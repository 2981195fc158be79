"""The task's metric of two sides on the same samples: what it is, how it is summed, and how sure its difference is."""
