"""Files that are copied into bundles: they run where transload is not installed, and import nothing of it."""
