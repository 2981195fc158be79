"""Vertex AI: a custom container of transload with the artifact in it, on the port and the routes that Vertex names.

Requirements: https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements.
"""

from __future__ import annotations

from .bundle_records import BundleSource, Dialect, Files
from .docker_bundle import dockerfile, serve_words
from .kserve_bundle import service_name

_HEALTH = "/healthz"
_PORT = "8080"

START = """docker build -t {name} . && docker run --rm -p 8080:8080 {name}
# or, on Vertex AI: ./upload.sh REGION IMAGE"""

_ENTRYPOINT = """#!/bin/sh
# Vertex AI says in AIP_* where it will ask. The routes are those that upload.sh registers the model with.
set -eu
predict={predict}
health={health}
if [ "${{AIP_PREDICT_ROUTE:-$predict}}" != "$predict" ] || [ "${{AIP_HEALTH_ROUTE:-$health}}" != "$health" ]; then
  echo "the routes are $predict and $health, got ${{AIP_PREDICT_ROUTE:-none}} and ${{AIP_HEALTH_ROUTE:-none}}" >&2
  echo "  fix: upload the model with upload.sh, which names them" >&2
  exit 2
fi
exec transload {words}
"""
_UPLOAD = """#!/bin/sh
# Build the image, push it, and register the model with its routes: ./upload.sh REGION IMAGE
set -eu
region=$1
image=$2
docker build -t "$image" "$(dirname "$0")"
docker push "$image"
exec gcloud ai models upload --region="$region" --display-name={name} --container-image-uri="$image" \\
  --container-predict-route={predict} --container-health-route={health} --container-ports={port}
"""


def write_vertex(source: BundleSource) -> Files:
    """Return the artifact, the image's files, and the script that registers the model."""
    predict = f"/v1/models/{source.name}:predict"
    words = " ".join(serve_words(source.name, grpc_port="8500", rest_port=f'"${{AIP_HTTP_PORT:-{_PORT}}}"'))
    image = (
        "COPY entrypoint.sh /opt/entrypoint.sh\n"
        "HEALTHCHECK NONE\n"  # the base image's asks another port, and Vertex AI asks by itself
        f"EXPOSE {_PORT}\n"
        'ENTRYPOINT ["/bin/sh", "/opt/entrypoint.sh"]\n'
        "CMD []"
    )
    return {
        **source.artifact_files,
        "Dockerfile": dockerfile(image),
        "entrypoint.sh": _ENTRYPOINT.format(predict=predict, health=_HEALTH, words=words),
        "upload.sh": _UPLOAD.format(name=source.name, predict=predict, health=_HEALTH, port=_PORT),
    }


def start_vertex(source: BundleSource) -> str:
    """Return the commands that start the container here, or upload it."""
    return START.format(name=service_name(source.name))


def vertex_dialect(source: BundleSource) -> Dialect:
    """Return how it is asked: in rows, as `predict` of Vertex AI demands, where every tensor has a row per sample."""
    return Dialect.ROWS if source.batch_first else Dialect.COLUMNS
