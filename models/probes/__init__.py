"""The inputs that prove sameness: samples, sizes, integers, masks, lengths and stress values."""
