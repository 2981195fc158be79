"""A model that answers: in this process (runtimes/), behind a socket (server/), and from outside (clients/)."""

if "." not in __name__:
    raise ImportError("this folder is transload.serving: import it by that name")
