"""`transload serve`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...models.library_messages import one_line
from . import option_values, options

if TYPE_CHECKING:
    from ..commands.serve import Serving


Models = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME=]PATH...",
        help="An artifact's folder, a SavedModel or a file; a folder with a folder per version (1, 2, ...); or a run.",
    ),
]
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="What clients call a single model.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--model-config-file", metavar="FILE", help="Models as TF Serving's model_config_list.")
]
EnableBatching = Annotated[
    bool,
    typer.Option(
        "--enable-batching", help="Gather requests into batches, as large as bench --tune --latency-bound found best."
    ),
]
BatchingFile = Annotated[
    Path | None,
    typer.Option(
        "--batching-parameters-file", metavar="FILE", help="Gather requests into batches, by TF Serving's parameters."
    ),
]
Host = Annotated[
    str,
    typer.Option("--host", metavar="HOST", help="Where to listen; 0.0.0.0 in a container, unix:FOLDER for sockets."),
]
Instances = Annotated[
    int,
    typer.Option("--instances", min=1, max=64, metavar="N", help="Processes of each model; the idlest answers."),
]
GrpcPort = Annotated[int, typer.Option("--grpc-port", min=0, max=65535, metavar="PORT", help="0 takes a free one.")]
RestPort = Annotated[int, typer.Option("--rest-port", min=0, max=65535, metavar="PORT", help="0 takes a free one.")]
MaxBody = Annotated[
    int, typer.Option("--max-body", min=1, max=2047, metavar="MB", help="The largest request that is read.")
]
AccessLog = Annotated[
    str | None,
    typer.Option("--access-log", metavar="FILE", help="Append one line of JSON per request to FILE; - is stderr."),
]
AccessLogLimit = Annotated[
    int | None,
    typer.Option("--access-log-limit", min=1, metavar="MB", help="Rename a log of more than this to FILE.1."),
]
AllowSignatureChange = Annotated[
    bool,
    typer.Option("--allow-signature-change", help="Let a new version of a model take or give other tensors."),
]

TlsCert = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate (PEM); then both ports speak TLS.")
]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key (PEM), without a password.")]
TlsClientCa = Annotated[
    Path | None, typer.Option("--tls-client-ca", metavar="FILE", help="Clients need a certificate signed by this one.")
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Requests need the bearer token in this file.")
]
Origins = Annotated[
    list[str] | None,
    typer.Option("--origin", metavar="URL", help="Let web pages of this origin ask, as https://example.com; several."),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Let --host be an address of other networks without TLS.")]


def _warn(sentence: str) -> None:
    print(one_line(sentence), file=sys.stderr, flush=True)


def command(
    models: Models = None,
    *,
    name: Name = None,
    model_config_file: ConfigFile = None,
    input_: options.Input = None,
    enable_batching: EnableBatching = False,
    batching_parameters_file: BatchingFile = None,
    instances: Instances = 1,
    host: Host = "127.0.0.1",
    grpc_port: GrpcPort = 8500,
    rest_port: RestPort = 8501,
    max_body: MaxBody = 64,
    access_log: AccessLog = None,
    access_log_limit: AccessLogLimit = None,
    allow_signature_change: AllowSignatureChange = False,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    token_file: TokenFile = None,
    origin: Origins = None,
    insecure: Insecure = False,
    trust: options.Trust = False,
    device: options.Device = None,
    threads: options.Threads = None,
    untuned: options.Untuned = False,
) -> None:
    """Serve artifacts over TF Serving's API until it is stopped.

    PredictionService and ModelService over gRPC, :predict and /healthz over HTTP. Ctrl-C or SIGTERM ends it, with 0.
    Each version of a model answers in a process of its own. One that dies is started again, until it dies three times
    within a minute. Versions that appear in a model's folder are loaded, and take over when they answer.
    """
    from ...serving.endpoint_security import UNIX
    from ..commands.serve import ServeOptions, serve

    def ready(serving: Serving) -> None:
        scheme = "http" if tls_cert is None else "https"
        for model in serving.models:
            address = serving.addresses["rest"]
            end = ":" if address.startswith(UNIX) else ""  # as nginx writes it
            rest = f"{scheme}://{address}{end}/v1/models/{model.name}:predict"
            print(one_line(f"serving {model.title}: gRPC {serving.addresses['grpc']}, REST {rest}"), flush=True)
        access = f", access log {'stderr' if access_log == '-' else access_log}" if access_log else ""
        print(f"logs {serving.logs}{access}", flush=True)

    serve(
        models or [],
        ServeOptions(
            name=name, config_file=model_config_file, host=host, grpc_port=grpc_port, rest_port=rest_port,
            device=device or "auto", threads=threads, untuned=untuned, max_body_bytes=max_body << 20,
            access_log=access_log, access_log_limit_bytes=access_log_limit and access_log_limit << 20,
            allow_signature_change=allow_signature_change, inputs=option_values.parse_inputs(input_),
            enable_batching=enable_batching, batching_file=batching_parameters_file, instances=instances,
            tls_cert=tls_cert, tls_key=tls_key, tls_client_ca=tls_client_ca, token_file=token_file, insecure=insecure,
            trust=trust, origins=tuple(origin or ()),
        ),
        ready,
        _warn,
    )  # fmt: skip
