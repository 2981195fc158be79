"""The options of `transload serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from . import shared_options as shared
from .option import CommandOptions, Option

_MB = 1 << 20


class ServeOptions(CommandOptions):
    """Serve artifacts over TF Serving's API until it is stopped.

    PredictionService and ModelService over gRPC, :predict and /healthz over HTTP. Ctrl-C or SIGTERM ends it, with 0.
    Each version of a model answers in a process of its own. One that dies is started again, until it dies three times
    within a minute. Versions that appear in a model's folder are loaded, and take over when they answer.
    """

    models: Annotated[
        tuple[str, ...],
        shared.texts(),
        Option(
            metavar="[NAME=]PATH...",
            several=True,
            help="An artifact's folder, a SavedModel or a file; a folder with a folder per version (1, 2, ...); "
            "or a run.",
        ),
    ] = ()
    name: Annotated[str | None, Option("--name", "NAME", "What clients call a single model.")] = None
    config_file: Annotated[
        Path | None, Option("--model-config-file", "FILE", "Models as TF Serving's model_config_list.")
    ] = None
    inputs: shared.Inputs = ()  # of the only model, a file that does not say them
    enable_batching: Annotated[
        bool,
        Option(
            "--enable-batching",
            help="Gather requests into batches, as large as bench --tune --latency-bound found best.",
        ),
    ] = False
    batching_file: Annotated[
        Path | None,
        Option("--batching-parameters-file", "FILE", "Gather requests into batches, by TF Serving's parameters."),
    ] = None
    instances: Annotated[
        int, Option("--instances", "N", "Processes of each model; the idlest answers.", min=1, max=64)
    ] = 1
    host: Annotated[
        str, Option("--host", "HOST", "Where to listen; 0.0.0.0 in a container, unix:FOLDER for sockets.")
    ] = "127.0.0.1"
    grpc_port: Annotated[int, Option("--grpc-port", "PORT", "0 takes a free one.", min=0, max=65535)] = 8500
    rest_port: Annotated[int, Option("--rest-port", "PORT", "0 takes a free one.", min=0, max=65535)] = 8501
    max_body_mb: Annotated[int, Option("--max-body", "MB", "The largest request that is read.", min=1, max=2047)] = 64
    access_log: Annotated[
        str | None, Option("--access-log", "FILE", "Append one line of JSON per request to FILE; - is stderr.")
    ] = None
    access_log_limit_mb: Annotated[
        int | None, Option("--access-log-limit", "MB", "Rename a log of more than this to FILE.1.", min=1)
    ] = None
    allow_signature_change: Annotated[
        bool, Option("--allow-signature-change", help="Let a new version of a model take or give other tensors.")
    ] = False
    tls_cert: Annotated[Path | None, Option("--tls-cert", "FILE", "Certificate (PEM); then both ports speak TLS.")] = (
        None
    )
    tls_key: Annotated[Path | None, Option("--tls-key", "FILE", "Its key (PEM), without a password.")] = None
    tls_client_ca: Annotated[
        Path | None, Option("--tls-client-ca", "FILE", "Clients need a certificate signed by this one.")
    ] = None
    token_file: Annotated[
        Path | None, Option("--token-file", "FILE", "Requests need the bearer token in this file.")
    ] = None
    origins: Annotated[
        tuple[str, ...],
        shared.texts(),
        Option("--origin", "URL", "Let web pages of this origin ask, as https://example.com; several.", several=True),
    ] = ()
    insecure: Annotated[bool, Option("--insecure", help="Let --host be an address of other networks without TLS.")] = (
        False
    )
    trust: shared.Trust = False
    device: shared.Device = None
    threads: shared.Threads = None  # None: as tuned, else 1
    untuned: Annotated[bool, shared.UNTUNED] = False

    @property
    def max_body_bytes(self) -> int:
        """The size of the largest request that is read."""
        return self.max_body_mb * _MB

    @property
    def access_log_limit_bytes(self) -> int | None:
        """The size at which the log is kept as FILE.1; None: none."""
        return self.access_log_limit_mb and self.access_log_limit_mb * _MB
