"""Wire formats that servers and clients share."""
