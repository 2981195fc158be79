"""In which order models and steps are done, and when a step gets a second copy. A simulation uses these rules too."""
