"""The table of serving systems, and the files of a bundle: the system's own, the golden samples, and their check."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...models.errors import BadRequest
from ...models.formats import Format
from ...models.signature import Signature
from .bundle_records import BundleSource, Dialect, Files, System, golden_document
from .docker_bundle import START as START_DOCKER
from .docker_bundle import write_docker
from .kserve_bundle import MODEL_FORMATS, start_kserve, write_kserve
from .ray_serve_bundle import LIBRARIES, write_ray_serve
from .ray_serve_bundle import START as START_RAY_SERVE
from .sagemaker_bundle import LIBRARIES as SAGEMAKER_LIBRARIES
from .sagemaker_bundle import sagemaker_dialect, start_sagemaker, write_sagemaker
from .standalone_files import CHECK, standalone
from .tfserving_bundle import start_tfserving, write_tfserving
from .torchserve_bundle import START as START_TORCHSERVE
from .torchserve_bundle import write_torchserve
from .triton_bundle import BACKENDS, start_triton, triton_signature, write_triton
from .vertex_bundle import start_vertex, vertex_dialect, write_vertex

_CHECK_SH = """#!/bin/sh
# Compare the answers of an endpoint with those of the verified artifact: ./check.sh [URL]. Exit status 0 or 1.
exec python3 "$(dirname "$0")/check.py" "$@"
"""
_ARTIFACT = "artifact"  # the folder that `transload serve` serves, in the bundles that run it
_README = """# {name} for {system}

An artifact of the format {target}, bundled by transload.

Start it:

    {start}

Check that it answers as the verified artifact did ({calls} calls, at least {least_db:.1f} dB):

    ./check.sh {url}
"""


def _columns(source: BundleSource) -> Dialect:  # noqa: ARG001  (every row of the table takes it)
    return Dialect.COLUMNS


def _v2(source: BundleSource) -> Dialect:  # noqa: ARG001
    return Dialect.V2


def _own_names(source: BundleSource) -> Signature:
    return source.artifact.signature


@dataclass(frozen=True, slots=True)
class SystemRow:
    """One serving system, as data."""

    system: System
    takes: tuple[Format, ...]  # the one that suits it best first
    write: Callable[[BundleSource], Files]
    start: Callable[[BundleSource], str]  # the command that starts it, in the bundle's folder
    url: str  # of the server that `start` starts
    path: str  # of a request; {name} is the model's
    dialect: Callable[[BundleSource], Dialect]
    wire: Callable[[BundleSource], Signature] = _own_names  # inputs and outputs as clients name them


_SERVED = (Format.SAVED_MODEL, Format.ONNX, Format.TORCHSCRIPT, Format.TFLITE, Format.PT2, Format.KERAS)
SYSTEMS: Mapping[System, SystemRow] = {
    row.system: row
    for row in (
        SystemRow(
            System.TFSERVING, (Format.SAVED_MODEL,), write_tfserving, start_tfserving,
            "http://127.0.0.1:8501", "/v1/models/{name}:predict", _columns,
        ),
        SystemRow(
            System.DOCKER, _SERVED, write_docker, lambda _: START_DOCKER,
            "http://127.0.0.1:8501", "/v1/models/{name}:predict", _columns,
        ),
        SystemRow(
            System.TRITON, tuple(BACKENDS), write_triton, start_triton,
            "http://127.0.0.1:8000", "/v2/models/{name}/infer", _v2, triton_signature,
        ),
        SystemRow(
            System.TORCHSERVE, (Format.TORCHSCRIPT,), write_torchserve, lambda _: START_TORCHSERVE,
            "http://127.0.0.1:8080", "/predictions/{name}", _v2,
        ),
        SystemRow(
            System.KSERVE, tuple(MODEL_FORMATS), write_kserve, start_kserve,
            "http://127.0.0.1:8080", "/v2/models/{name}/infer", _v2, triton_signature,
        ),
        SystemRow(
            System.RAY_SERVE, tuple(LIBRARIES), write_ray_serve, lambda _: START_RAY_SERVE,
            "http://127.0.0.1:8000", "/v2/models/{name}/infer", _v2,
        ),
        SystemRow(
            System.SAGEMAKER, tuple(SAGEMAKER_LIBRARIES), write_sagemaker, start_sagemaker,
            "http://127.0.0.1:8080", "/invocations", sagemaker_dialect,
        ),
        SystemRow(
            System.VERTEX, _SERVED, write_vertex, start_vertex,
            "http://127.0.0.1:8080", "/v1/models/{name}:predict", vertex_dialect,
        ),
    )
}  # fmt: skip


def check_taken(source_name: str, form: Format, system: System, *, flex: bool = False) -> None:
    """Raise BadRequest where a system does not take a format, or a TFLite file with operators of TensorFlow's."""
    takes = SYSTEMS[system].takes
    if form not in takes:
        raise BadRequest(
            f"{source_name} is of the format {form}, and {system} takes {', '.join(takes)}",
            fix=f"transload convert {source_name} --to {takes[0]} --out DIR, and bundle DIR/{takes[0]}",
        )
    if flex:
        raise BadRequest(
            f"{source_name} needs TensorFlow's Flex delegate, which no server here has",
            fix=f"bundle the model as {' or '.join(other for other in takes if other is not form)}",
        )


def bundle_files(source: BundleSource, system: System) -> Files:
    """Return all files of a bundle by their paths in it."""
    row, signature = SYSTEMS[system], source.artifact.signature
    path = row.path.format(name=source.name)
    golden = golden_document(
        source.golden, signature, row.wire(source), dialect=row.dialect(source), url=row.url, path=path
    )
    readme = _README.format(
        name=source.name, system=system, target=source.artifact.target, url=row.url,
        start=row.start(source).replace("\n", "\n    "), calls=len(source.golden.calls),
        least_db=source.golden.tolerance.least_db,
    )  # fmt: skip
    files, golden_text = row.write(source), json.dumps(golden) + "\n"
    if _ARTIFACT in files and row.wire(source) == signature:
        files[f"{_ARTIFACT}/golden.json"] = golden_text  # `transload serve` asks them before it serves the version
    return {
        **files,
        "golden.json": golden_text,
        "check.py": standalone(CHECK),
        "check.sh": _CHECK_SH,
        "README.md": readme,
    }
