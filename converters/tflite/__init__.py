"""TFLite files: written in four precisions, and mended where a runtime would read them wrongly."""
