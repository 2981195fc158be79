"""Files of strangers: SavedModels."""
