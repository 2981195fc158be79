"""The extras that modules are said to come with, against pyproject.toml."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from transload.converters.steps import STEPS
from transload.pipeline.workers.extras import EXTRA_OF, extras_for, install_command
from transload.serving.runtimes.runtime_table import RUNTIMES

PROJECT = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
NOT_TESTED = {"mlflow"}  # not in the tested set


def brought_by(extra: str) -> set[str]:
    """The distributions of an extra, with those of the extras that it is made of."""
    names: set[str] = set()
    for requirement in map(Requirement, PROJECT["optional-dependencies"][extra]):
        parts = requirement.extras if requirement.name == "transload" else ()
        names |= {canonicalize_name(requirement.name)}.union(*(brought_by(part) for part in parts))
    return names


def test_each_module_comes_with_its_extra() -> None:
    brings = metadata.packages_distributions()
    for module, extra in EXTRA_OF.items():
        distributions = {canonicalize_name(name) for name in brings.get(module.partition(".")[0], ())}
        if module not in NOT_TESTED:
            assert distributions & brought_by(extra), (module, extra)


def test_what_steps_and_runtimes_import_has_an_extra_or_comes_with_the_core() -> None:
    core = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    needs = {module for step in STEPS for module in step.requires}
    needs |= {module for runtime in RUNTIMES.values() if not runtime.extra for module in runtime.requires}
    assert needs <= EXTRA_OF.keys() | core


def test_no_framework_is_in_the_core() -> None:
    core = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    assert not core & {"torch", "tensorflow", "onnx", "onnxruntime", "grpcio", "ai-edge-litert", "scikit-learn"}


def test_extras_of_what_is_absent() -> None:
    here = {"onnx"}
    found = extras_for(("onnxruntime", "torch", "onnx", "numpy", "torch"), lambda name: name if name in here else None)
    assert found == ("torch", "onnx")
    assert install_command(found) == "pip install 'transload[torch,onnx]'"
