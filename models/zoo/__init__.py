"""Reference recipes: a net, real data that a package carries, its training and its task metric."""
