"""The models that a server holds, and the versions of each: opened, checked, switched and unloaded."""
