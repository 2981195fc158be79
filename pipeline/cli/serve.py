"""`transload serve`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ...models.library_messages import one_line
from ..options.serve_options import ServeOptions

if TYPE_CHECKING:
    from ..commands.serve import Serving

__all__ = ["ServeOptions", "command"]


def command(options: ServeOptions) -> None:
    """Serve, and print the addresses when all models answer."""
    from ..commands.serve import serve

    serve(options, lambda serving: _print_ready(serving, options), _warn)


def _print_ready(serving: Serving, options: ServeOptions) -> None:
    from ...serving.endpoint_security import UNIX

    scheme = "http" if options.tls_cert is None else "https"
    for model in serving.models:
        address = serving.addresses["rest"]
        end = ":" if address.startswith(UNIX) else ""  # as nginx writes it
        rest = f"{scheme}://{address}{end}/v1/models/{model.name}:predict"
        print(one_line(f"serving {model.title}: gRPC {serving.addresses['grpc']}, REST {rest}"), flush=True)
    log = "stderr" if options.access_log == "-" else options.access_log
    print(f"logs {serving.logs}{f', access log {log}' if log else ''}", flush=True)


def _warn(sentence: str) -> None:
    print(one_line(sentence), file=sys.stderr, flush=True)
