"""The inputs that prove sameness; probe_set.py lists their kinds. Needs numpy only."""
