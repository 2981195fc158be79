"""An artifact as the folder of a model in MLflow: MLmodel, requirements, an example and golden samples beside it.

The folder is written by hand, without mlflow's `log_model`: that would import each model's framework, in the process
that talks to the network. MLflow's format is described at https://mlflow.org/docs/latest/ml/model.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ....models.artifact import CARD_TEXT, DIGESTS, LOCAL, RECORD, REQUIREMENTS, Artifact
from ....models.signature import DTYPES, Array, TensorSpec
from ....models.store import size_of
from ....serving.bundles.bundle_templates import RUNTIME, standalone
from .golden_answers import GoldenAnswers

MLMODEL, GOLDEN = "MLmodel", "golden.npz"
_EXAMPLE, _SERVING_EXAMPLE = "input_example.json", "serving_input_example.json"
_CODE, _LOADER = "code", "mlflow_artifact"
_CONDA, _PYTHON_ENV = "conda.yaml", "python_env.yaml"
_ONNX, _TORCHSCRIPT = "onnx", "torchscript"  # flavours, as FormatSpec.mlflow names them
_TORCHSCRIPT_FILE = "model.pth"
_REPLACED = (REQUIREMENTS, DIGESTS, *LOCAL)  # MLflow has its own; what was tuned here does not hold there


@dataclass(frozen=True, kw_only=True)
class ModelIdentity:
    """What MLflow has called a model before its files are written."""

    model_id: str
    run_id: str
    mlflow: str  # version of the client
    now: datetime = field(default_factory=lambda: datetime.now(UTC))


def why_not_logged(artifact: Artifact) -> str | None:
    """Return why MLflow cannot call this artifact, None where it can."""
    if artifact.flex:
        return "it needs TensorFlow's Flex delegate, which the interpreter of LiteRT does not bring"
    spec = artifact.target.format.spec
    if not spec.mlflow:
        return f"transload has no loader of {spec.title} files for MLflow"
    specs = (*artifact.signature.inputs, *artifact.signature.outputs)
    narrow = next((spec.dtype for spec in specs if spec.dtype not in DTYPES), None)
    return f"MLflow has no tensors of {narrow}" if narrow else None


def write_model_folder(
    out: Path,
    artifact: Artifact,
    identity: ModelIdentity,
    *,
    golden: GoldenAnswers | None = None,
    requirements: Sequence[str] = (),
    packages: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write the folder of a model to `out`, which must not be there. `packages`: versions that the flavour names;
    `facts` go into the model's metadata. Needs PyYAML, which comes with mlflow."""
    import yaml

    shutil.copytree(artifact.folder, out, ignore=shutil.ignore_patterns(*_REPLACED))
    flavor = artifact.target.format.spec.mlflow
    if flavor != _ONNX:  # which MLflow opens by itself
        (out / _CODE).mkdir()
        for module in (RUNTIME, _LOADER):
            (out / _CODE / f"{module}.py").write_text(standalone(module))
    if flavor == _TORCHSCRIPT:
        _rename_torchscript(out, artifact.path.name)
    lines = [f"mlflow=={identity.mlflow}", *requirements]
    _write_environment(out, lines)
    document: dict[str, Any] = {
        "artifact_path": f"models:/{identity.model_id}",
        "flavors": _flavors(flavor, artifact.path.name, packages or {}),
        "metadata": dict(facts or {}),
        "mlflow_version": identity.mlflow,
        "model_id": identity.model_id,
        "model_size_bytes": size_of(out),
        "model_uuid": identity.model_id,
        "run_id": identity.run_id,
        "signature": {
            "inputs": json.dumps([_column(spec) for spec in artifact.signature.inputs]),
            "outputs": json.dumps([_column(spec) for spec in artifact.signature.outputs]),
            "params": None,
        },
        "utc_time_created": identity.now.strftime("%Y-%m-%d %H:%M:%S.%f"),
    }
    if golden:
        document["saved_input_example_info"] = _write_golden(out, artifact, golden)
    (out / MLMODEL).write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


def describe_model(artifact: Artifact) -> str:
    """Return the text of an artifact's card, for the description of a registered version."""
    file = artifact.folder / CARD_TEXT
    return file.read_text() if file.is_file() else f"{artifact.target}, converted by transload"


def _flavors(flavor: str, payload: str, packages: Mapping[str, str]) -> dict[str, Any]:
    """Return the flavours of a model: `python_function`, which `mlflow.pyfunc` opens, and the framework's own."""
    pyfunc: dict[str, Any] = {
        "env": {"conda": _CONDA, "virtualenv": _PYTHON_ENV},
        "loader_module": _LOADER,
        "code": _CODE,
        "python_version": platform.python_version(),
    }
    if flavor == _ONNX:
        own = {"onnx_version": packages.get("onnx", ""), "data": payload, "providers": ["CPUExecutionProvider"]}
        loader = {"loader_module": "mlflow.onnx", "data": payload, "code": None}
        return {"onnx": {**own, "code": None}, "python_function": {**pyfunc, **loader}}
    if flavor == "tensorflow":
        # MLflow's name of a SavedModel that is called by its signature; its other type calls the object itself.
        opened = {"model_type": "tf1-estimator", "meta_graph_tags": ["serve"], "signature_def_key": "serving_default"}
        return {"tensorflow": {"saved_model_dir": payload, **opened, "code": _CODE}, "python_function": pyfunc}
    if flavor in ("pytorch", _TORCHSCRIPT):
        own = {"pytorch_version": packages.get("torch", ""), "model_data": ".", "code": _CODE}
        return {"pytorch": own, "python_function": pyfunc}
    return {"python_function": pyfunc}


def _rename_torchscript(out: Path, payload: str) -> None:
    """Give a TorchScript file the name under which mlflow.pytorch looks for it, and tell our loader.
    mlflow 3.17 then hands it to torch.load with its own pickle module; without that, torch refuses TorchScript."""
    (out / payload).rename(out / _TORCHSCRIPT_FILE)
    (out / "pickle_module_info.txt").write_text("mlflow.pytorch.pickle_module")
    record = json.loads((out / RECORD).read_text())
    (out / RECORD).write_text(json.dumps({**record, "file": _TORCHSCRIPT_FILE}, indent=1) + "\n")


def _column(spec: TensorSpec) -> dict[str, Any]:
    """Return a tensor as MLflow's schema has it: -1 for a dynamic axis."""
    shape = [size if isinstance(size, int) else -1 for size in spec.shape]
    return {"type": "tensor", "name": spec.name, "tensor-spec": {"dtype": spec.dtype, "shape": shape}}


def _write_environment(out: Path, lines: Sequence[str]) -> None:
    """Write what MLflow builds an environment from: requirements.txt, conda.yaml and python_env.yaml."""
    import yaml

    python = platform.python_version()
    dependencies = [f"python={python}", "pip", {"pip": list(lines)}]
    conda = {"channels": ["conda-forge"], "dependencies": dependencies, "name": "mlflow-env"}
    (out / REQUIREMENTS).write_text("".join(f"{line}\n" for line in lines))
    (out / _CONDA).write_text(yaml.safe_dump(conda, sort_keys=False))
    environment = {"python": python, "build_dependencies": ["pip"], "dependencies": [f"-r {REQUIREMENTS}"]}
    (out / _PYTHON_ENV).write_text(yaml.safe_dump(environment, sort_keys=False))


def _write_golden(out: Path, artifact: Artifact, golden: GoldenAnswers) -> dict[str, Any]:
    """Write the golden samples and the input example; return what MLmodel says of the latter.
    Arrays of the samples are called by their place, for an input may have a name that no archive takes."""
    signature = artifact.signature
    arrays = {f"input_{at}": golden.inputs[spec.name] for at, spec in enumerate(signature.inputs)}
    arrays |= {f"output_{at}": golden.outputs[spec.name] for at, spec in enumerate(signature.outputs)}
    np.savez(out / GOLDEN, allow_pickle=False, **arrays)
    example = {spec.name: _nested(golden.example[spec.name]) for spec in signature.inputs}
    (out / _EXAMPLE).write_text(json.dumps(example))
    (out / _SERVING_EXAMPLE).write_text(json.dumps({"inputs": example}))
    return {"artifact_path": _EXAMPLE, "serving_input_path": _SERVING_EXAMPLE, "type": "ndarray"}


def _nested(array: Array) -> Any:
    return array.tolist()
