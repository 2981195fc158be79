"""What a user brings in a file or a folder, taken in: a module for each format, and take.py over them."""
