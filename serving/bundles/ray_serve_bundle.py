"""Ray Serve: an application in Python, and the config file that `serve run` and `serve deploy` take."""

from __future__ import annotations

from collections.abc import Mapping

from ...models.formats import Format
from .bundle_records import BundleSource, Files
from .standalone_files import RUNTIME, standalone

START = "pip install -r requirements.txt\nserve run serve.yaml"

# What pip installs to run each format with the bundle's own code.
LIBRARIES: Mapping[Format, str] = {
    Format.ONNX: "onnxruntime",
    Format.TORCHSCRIPT: "torch",
    Format.SAVED_MODEL: "tensorflow",
    Format.TFLITE: "ai-edge-litert",
}


def write_ray_serve(source: BundleSource) -> Files:
    """Return the application with its artifact, serve.yaml and requirements.txt."""
    config = (
        "http_options:\n"
        "  host: 127.0.0.1\n"
        "  port: 8000\n"
        "applications:\n"
        "  - name: model\n"
        "    route_prefix: /\n"
        "    import_path: app:build_app\n"
        "    args:\n"
        f'      name: "{source.name}"\n'
        f'      version: "{source.version}"\n'
        "    deployments:\n"
        "      - name: endpoint\n"
        "        num_replicas: 1\n"
    )
    return {
        **source.artifact_files,
        "app.py": standalone("ray_serve_app"),
        f"{RUNTIME}.py": standalone(RUNTIME),
        "serve.yaml": config,
        "requirements.txt": f"ray[serve]\nnumpy\n{LIBRARIES[source.artifact.target.format]}\n",
    }
