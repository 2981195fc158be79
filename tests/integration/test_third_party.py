"""Somebody else's package adds a step: the one of docs/steps.md, installed in a folder and run; and what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from transload.converters.steps import STEPS, Step
from transload.converters.third_party import check_step
from transload.models.extensible_table import ExtensibleTable

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-P", "-m", "transload")
ROWS, WORK = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "steps.md").read_text(), re.M | re.S)


def install(folder: Path, version: str = "1.0") -> None:
    """The package of the page, as pip would have put it there."""
    package, info = folder / "acme_steps", folder / f"acme_steps-{version}.dist-info"
    for old in folder.glob("*.dist-info"):
        old.rename(info)
    for each in (package, info):
        each.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(ROWS)
    (package / "round.py").write_text(WORK)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-steps\nVersion: {version}\n")
    (info / "entry_points.txt").write_text("[transload.steps]\nacme = acme_steps:STEPS\n")


def run(here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = [str(here / "lib"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    done = subprocess.run([*PROGRAM, *words], cwd=here, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done


def write_model(path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("acme")
    install(folder / "lib")
    write_model(folder / "net.onnx")
    return folder


def test_the_step_is_shown_with_its_package_and_version(here: Path) -> None:
    assert "acme.round (acme-steps 1.0)" in run(here, "formats").stdout
    rows = json.loads(run(here, "formats", "--json").stdout)["steps"]
    assert [(row["package"], row["missing"]) for row in rows if row["name"] == "acme.round"] == [
        ("acme-steps 1.0", None)
    ]
    shown = run(here, "convert", "net.onnx", "--to", "onnx:fp16", "--explain").stdout
    assert shown.splitlines()[:3] == ["onnx:fp16:", "  1  acme.round (acme-steps 1.0)", "  2  onnxruntime-fp16"]


def convert(here: Path) -> dict[str, object]:
    run(here, "convert", "net.onnx", "--to", "onnx:fp16", "--out", "made", "--quiet")
    (row,) = json.loads((here / "made" / "convert.json").read_text())["artifacts"]
    return {"route": row["route"], "status": row["status"], "sha256": row["sha256"]}


def conversions(here: Path) -> int:
    records = [json.loads(path.read_text()) for path in (here / ".transload" / "actions").glob("*.json")]
    return sum("weights" in record["facts"] for record in records)


@pytest.mark.slow
def test_it_converts_is_verified_and_is_done_anew_when_its_code_or_its_version_changes(here: Path) -> None:
    made = convert(here)
    assert (made["route"], made["status"]) == (["acme.round"], "verified")
    convert(here)
    assert conversions(here) == 1, "found in the store"
    (here / "lib" / "acme_steps" / "round.py").write_text(f"{WORK}\n# mended\n")
    convert(here)
    assert conversions(here) == 2
    install(here / "lib", "1.1")
    (here / "lib" / "acme_steps" / "round.py").write_text(f"{WORK}\n# mended\n")
    convert(here)
    assert conversions(here) == 3


GOOD = {
    "name": "'acme.tidy'", "source": "Target(Format.ONNX)", "target": "Target(Format.ONNX, Precision.FP16)",
    "entry": "'transload.converters.to_saved_model.saved_model_from_onnx:save'", "requires": "()", "cost": "1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, ""),
        ({"name": "'lowering'"}, "the name lowering is taken by a step of transload"),
        ({"name": "'a b'"}, "a step is called 'a b'; a name has letters, digits and . _ - @"),
        ({"target": "'caffe'"}, "acme.tidy goes from Target(...) to 'caffe', and one of them is no Target"),
        ({"target": "Target(Format.ONNX)"}, "acme.tidy ends where it starts, at onnx"),
        (
            {"source": "Target(Format.ONNX, Precision.INT8)"},
            "acme.tidy starts from onnx:int8; nothing is built on a reduced precision",
        ),
        ({"cost": "-1"}, "the cost of acme.tidy is -1 and must be a number above 0"),
        ({"requires": "'onnx'"}, "acme.tidy requires 'onnx', which is no tuple of names of modules"),
        ({"entry": "'acme'"}, "the entry of acme.tidy is 'acme' and must be MODULE:FUNCTION"),
        (
            {"entry": "'acme_nowhere:f'"},
            "the entry of acme.tidy is acme_nowhere:f, and there is no module 'acme_nowhere'",
        ),
        (
            {"entry": "'transload.converters.to_saved_model.saved_model_from_onnx:nothing'"},
            "the entry of acme.tidy is transload.converters.to_saved_model.saved_model_from_onnx:nothing, "
            "and transload.converters.to_saved_model.saved_model_from_onnx has no nothing",
        ),
        ({"stands_in_for": "'nobody'"}, "acme.tidy stands in for nobody, which is no step"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_by_its_package(
    fields: dict[str, str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ", ".join(f"{name}={value}" for name, value in (GOOD | fields).items())
    known, package = load(f"STEPS = Step({row})", tmp_path, monkeypatch)
    if why:
        assert tuple(known.values()) == STEPS, "none of its steps"
        (said,) = known.refused
        assert re.sub(r"Target\(format.*?>\)", "Target(...)", said) == f"the steps of {package} are left out: {why}"
    else:
        assert known.refused == ()
        assert [*known.values()][-1].package == package


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise OSError('no disk')", "raised OSError: no disk"),
        ("STEPS = 5", "is neither a Step nor a tuple of them"),
        ("STEPS = ()", "is neither a Step nor a tuple of them"),
        ("import jax.numpy; STEPS = Step()", "loads jax, which belongs inside of an entry's function"),
    ],
)
def test_a_module_that_gives_no_rows_is_refused(
    text: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").touch()
    (tmp_path / "jax" / "numpy.py").touch()
    text = text.replace("Step()", f"Step({', '.join(f'{name}={value}' for name, value in GOOD.items())})")
    known, package = load(text, tmp_path, monkeypatch)
    (said,) = known.refused
    assert said.startswith(f"the steps of {package} are left out: ")
    assert said.endswith(why)


def load(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    """What is known with a module of that text installed as a package."""
    head = (
        "from transload.converters.steps import Step\nfrom transload.models.formats import Format, Precision, Target\n"
    )
    (folder / "acme_rows.py").write_text(head + text)
    info = folder / "acme_rows-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rows\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[transload.steps]\nacme = acme_rows:STEPS\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "acme_rows", raising=False)
    (found,) = metadata.distributions(path=[str(folder)])
    known = ExtensibleTable("step", Step, STEPS, check_step, lambda: found.entry_points)
    assert known.refused is not None
    for name in ("acme_rows", "jax", "jax.numpy"):
        sys.modules.pop(name, None)
    return known, "acme-rows 2.0"
