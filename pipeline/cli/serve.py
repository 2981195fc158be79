"""`transload serve`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from . import options


def command(
    artifact: Annotated[Path, typer.Argument(metavar="ARTIFACT", help="The folder of an artifact, of any format.")],
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What clients call the model.")] = "model",
    host: Annotated[
        str, typer.Option("--host", metavar="HOST", help="Where to listen; 0.0.0.0 in a container.")
    ] = "127.0.0.1",
    grpc_port: Annotated[
        int, typer.Option("--grpc-port", min=0, max=65535, metavar="PORT", help="0 takes a free one.")
    ] = 8500,
    rest_port: Annotated[
        int, typer.Option("--rest-port", min=0, max=65535, metavar="PORT", help="0 takes a free one.")
    ] = 8501,
    max_body: Annotated[
        int, typer.Option("--max-body", min=1, max=2047, metavar="MB", help="The largest request that is read.")
    ] = 64,
    access_log: Annotated[
        str | None,
        typer.Option("--access-log", metavar="FILE", help="Append one line of JSON per request to FILE; - is stderr."),
    ] = None,
    device: options.Device = None,
    threads: options.Threads = None,
) -> None:
    """Serve an artifact over TF Serving's API until it is stopped.

    PredictionService and ModelService over gRPC, :predict and /healthz over HTTP. Ctrl-C or SIGTERM ends it, with 0.
    A server process that dies is started again, until three die within a minute.
    """
    from ..commands.serve import serve

    def ready(addresses: dict[str, str], running: str) -> None:
        rest = f"http://{addresses['rest']}/v1/models/{name}:predict"
        log = f", access log {'stderr' if access_log == '-' else access_log}" if access_log else ""
        print(f"serving {artifact} as {name} ({running}): gRPC {addresses['grpc']}, REST {rest}{log}", flush=True)

    def warn(sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)

    serve(
        artifact, ready, warn, name=name, host=host, grpc_port=grpc_port, rest_port=rest_port, device=device or "auto",
        threads=threads or 1, max_body_bytes=max_body << 20, access_log=access_log,
    )  # fmt: skip
