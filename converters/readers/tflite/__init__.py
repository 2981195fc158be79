"""Files of strangers: TFLite."""
