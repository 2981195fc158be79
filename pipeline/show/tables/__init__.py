"""What people read in rows: a table as a record, its printers, and the tables of a result."""
