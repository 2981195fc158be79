"""How long answers take: rounds side by side, loads, settings that are searched."""
