"""Turn a MODEL argument into a module with its weights, and find out how its forward is called."""
