"""Docker: an image of transload with the artifact in it, and a compose file that runs `transload serve`."""

from __future__ import annotations

import json

from .bundle_records import BundleSource, Files

_MODEL = "/opt/model"

START = "docker compose up --build"


def dockerfile(command: str) -> str:
    """Return a Dockerfile whose image holds the artifact; `command` are its last instructions."""
    return (
        "# The base image: docker build --target cpu -t transload:cpu . in a checkout of transload.\n"
        "ARG TRANSLOAD_IMAGE=transload:cpu\n"
        "FROM ${TRANSLOAD_IMAGE}\n"
        f"COPY artifact {_MODEL}\n"
        f"{command}\n"
    )


def serve_words(name: str, *, grpc_port: str, rest_port: str) -> list[str]:
    """Return the words of `transload serve` in a container."""
    ports = ["--grpc-port", grpc_port, "--rest-port", rest_port]
    return ["serve", _MODEL, "--name", name, "--host", "0.0.0.0", "--insecure", *ports]  # noqa: S104  (only the container's network)


def write_docker(source: BundleSource) -> Files:
    """Return the artifact, a Dockerfile and compose.yaml; the container may write to /tmp alone."""
    words = serve_words(source.name, grpc_port="8500", rest_port="8501")
    compose = (
        "services:\n"
        "  model:\n"
        "    build: .\n"
        "    restart: unless-stopped\n"
        "    ports:\n"
        '      - "127.0.0.1:8500:8500"\n'
        '      - "127.0.0.1:8501:8501"\n'
        "    read_only: true\n"
        "    tmpfs:\n"
        "      - /tmp\n"
        "    cap_drop:\n"
        "      - ALL\n"
        "    security_opt:\n"
        "      - no-new-privileges:true\n"
    )
    return {
        **source.artifact_files,
        "Dockerfile": dockerfile(f"CMD {json.dumps(words)}"),
        "compose.yaml": compose,
    }
