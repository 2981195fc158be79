"""Lists of models: the file that names them, their results side by side, and why some of them failed."""
