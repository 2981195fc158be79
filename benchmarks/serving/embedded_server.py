"""The embedded server over an artifact, its session in the same process: python embedded_server.py FOLDER.

Prints the ports of gRPC and HTTP. `transload bench` opens it so.
"""

from __future__ import annotations

import sys
import threading

from transload.serving.server.embedded import open_server


def main() -> None:
    """Serve until the process is ended."""
    server = open_server(folder=sys.argv[1], name="model", threads=1, device="cpu")
    addresses = server.addresses()
    print(*(addresses[protocol].rpartition(":")[2] for protocol in ("grpc", "rest")), flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
