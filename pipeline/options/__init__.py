"""The options of commands: one record for each command, of which its command line and its Python function are made."""
