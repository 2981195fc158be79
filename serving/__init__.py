"""A model that answers: in this process (runtimes/), behind a socket (server/), and from outside (clients/)."""
