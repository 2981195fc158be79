"""Ray Serve's application, and the layouts of the two clouds' containers."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transload.models.formats import Format
from transload.models.signature import Signature, TensorSpec
from transload.serving.bundles.bundle_folder import write_bundle_folder
from transload.serving.bundles.bundle_records import Archive, BundleSource, System
from transload.serving.bundles.systems import bundle_files

ROWS = Signature((TensorSpec("x", "float32", ("batch", 2)),), (TensorSpec("y", "float32", ("batch", 2)),))


def test_ray_serves_config_names_the_application_and_the_model(make_source: Callable[..., BundleSource]) -> None:
    files = bundle_files(make_source(Format.TFLITE, name="digits", version=4), System.RAY_SERVE)
    assert {"artifact", "app.py", "artifact_runtime.py", "serve.yaml", "requirements.txt"} < set(files)
    assert files["requirements.txt"] == "ray[serve]\nnumpy\nai-edge-litert\n"
    config = str(files["serve.yaml"])
    assert "    import_path: app:build_app\n" in config
    assert '    args:\n      name: "digits"\n      version: "4"\n' in config
    assert "def build_app(" in str(files["app.py"])


def members(source: BundleSource) -> dict[str, Any]:
    archive = bundle_files(source, System.SAGEMAKER)["model.tar.gz"]
    assert isinstance(archive, Archive)
    return dict(archive.members)


def test_sagemakers_tensorflow_container_gets_a_version_folder(make_source: Callable[..., BundleSource]) -> None:
    source = make_source(Format.SAVED_MODEL, name="digits", version=2)
    assert members(source) == {"digits/2": source.artifact.path}
    files = bundle_files(source, System.SAGEMAKER)
    assert "/tensorflow-inference:2.19.0-cpu-py312-ubuntu22.04-sagemaker" in str(files["README.md"])
    golden = json.loads(str(files["golden.json"]))
    assert (golden["dialect"], golden["path"]) == ("columns", "/invocations")


@pytest.mark.parametrize(
    ("form", "libraries"),
    [(Format.TORCHSCRIPT, None), (Format.ONNX, "onnxruntime\n"), (Format.TFLITE, "ai-edge-litert\n")],
)
def test_sagemakers_pytorch_container_gets_code(
    make_source: Callable[..., BundleSource], form: Format, libraries: str | None
) -> None:
    source = make_source(form)
    inside = members(source)
    assert inside.pop("code/requirements.txt", None) == libraries
    assert set(inside) == {
        "artifact.json", source.artifact.path.name, "code/inference.py", "code/artifact_runtime.py",
    }  # fmt: skip
    readme = str(bundle_files(source, System.SAGEMAKER)["README.md"])
    assert "/pytorch-inference:2.6.0-cpu-py312-ubuntu22.04-sagemaker" in readme


def test_an_endpoint_of_sagemaker_is_checked_through_the_aws_cli(
    make_source: Callable[..., BundleSource], tmp_path: Path
) -> None:
    """A stand-in for the program `aws` writes the request into the answer: it reaches the check, which refuses it."""
    write_bundle_folder(tmp_path / "bundle", bundle_files(make_source(Format.ONNX), System.SAGEMAKER))
    (tmp_path / "bin").mkdir()
    aws = tmp_path / "bin" / "aws"
    aws.write_text(
        '#!/bin/sh\necho "$1 $2 $3 $4 $5 $6" >> "$LOG"\nfor last; do :; done\ncp "${8#fileb://}" "$last"\n'
        'sed -i s/inputs/outputs/ "$last"\n'
    )
    aws.chmod(0o755)
    log = tmp_path / "log"
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "LOG": str(log), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [tmp_path / "bundle" / "check-endpoint.sh", "mine"], env=env, capture_output=True, text=True, check=False
    )
    call = "sagemaker-runtime invoke-endpoint --endpoint-name mine --content-type application/json"
    assert log.read_text().splitlines() == [call, call]
    assert done.returncode == 1
    assert "FAIL  the answer lacks outputs" in done.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("tmp.")] == []


def run_entrypoint(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run entrypoint.sh with a stand-in for the program `transload` that prints its words."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin" / "transload"
    program.write_text('#!/bin/sh\nfor word; do echo "$word"; done\n')
    program.chmod(0o755)
    env = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", **environment}
    return subprocess.run(
        ["sh", folder / "entrypoint.sh"], env=env, capture_output=True, text=True, check=False
    )  # fmt: skip


def test_vertex_says_port_and_routes(make_source: Callable[..., BundleSource], tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    write_bundle_folder(folder, bundle_files(make_source(Format.ONNX, name="digits"), System.VERTEX))
    words = run_entrypoint(folder).stdout.splitlines()
    assert words[:4] == ["serve", "/opt/model", "--name", "digits"]
    assert words[-2:] == ["--rest-port", "8080"]
    routes = {"AIP_PREDICT_ROUTE": "/v1/models/digits:predict", "AIP_HEALTH_ROUTE": "/v2/health/ready"}
    assert run_entrypoint(folder, AIP_HTTP_PORT="7080", **routes).stdout.splitlines()[-1] == "7080"
    done = run_entrypoint(folder, **{**routes, "AIP_HEALTH_ROUTE": "/v1/endpoints/1"})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "the routes are /v1/models/digits:predict and /v2/health/ready, "
        "got /v1/models/digits:predict and /v1/endpoints/1\n"
        "  fix: upload the model with upload.sh, which names them\n"
    )
    upload = shlex.split((folder / "upload.sh").read_text().replace("\\\n", ""), comments=True)
    wanted = {"--container-predict-route=/v1/models/digits:predict", "--container-health-route=/v2/health/ready"}
    assert wanted < set(upload)
    assert "--platform linux/amd64" in " ".join(upload)


def test_vertex_is_asked_in_rows_where_there_are_rows(
    make_source: Callable[..., BundleSource], signatures: Any
) -> None:
    def dialect(signature: Signature) -> str:
        source = make_source(Format.ONNX, signature)
        return str(json.loads(str(bundle_files(source, System.VERTEX)["golden.json"]))["dialect"])

    assert dialect(ROWS) == "rows"
    assert dialect(signatures["scalars"]) == "columns"
