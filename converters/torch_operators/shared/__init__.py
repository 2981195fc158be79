"""What is written once for both of torch's exporters, and what writes into the graph of each."""
