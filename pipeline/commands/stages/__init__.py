"""The stages that commands are made of: convert, validate, bench."""
