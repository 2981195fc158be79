"""What commands print: tables, JSON, errors, and the lines of a conversion."""
