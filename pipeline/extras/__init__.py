"""What a run may have beside it: other machines, records of runs, statements, care of the store."""
