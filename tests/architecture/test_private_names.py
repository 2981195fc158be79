"""Private names of a third party are imported in one module per library: converters/patches/private_*.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from transload.converters.patches import private_onnxscript, private_tensorflow, private_tf2onnx, private_torch

from .syntax import nodes_of, parsed

ROOT = Path(__file__).parents[2]
LAYERS = ("models", "converters", "serving", "pipeline")
PRIVATE = re.compile(
    r"torch\.(?!ops\.)([\w.]+\.)?_(?!_)\w|onnxscript\.(function_libs|([\w.]+\.)?_(?!_))|torch\.fx\.experimental|tf2onnx\b"
    r"|tensorflow\.(lite\.)?python|tensorflow\.compiler|keras\.src|tf_keras\.src"
)
EXCEPTIONS = {
    # models/ may not import converters/
    "models/loading/library_models.py": {"torch.nn.modules.batchnorm._BatchNorm"},
    "models/user_python/inside/float64_mode.py": {"torch.utils._python_dispatch.TorchDispatchMode"},
    "models/loading/module_checks.py": {"torch.utils._python_dispatch.TorchDispatchMode", "torch.utils._pytree"},
    "models/loading/value_operators.py": {"torch.utils._python_dispatch.TorchDispatchMode", "torch.utils._pytree"},
    "serving/runtimes/inductor_cache.py": {
        "torch._dynamo.config", "torch._inductor.config",
        "torch._inductor.aoti_compile_and_package", "torch._inductor.aoti_load_package",
    },
    # serving/ may not import converters/
    "serving/tracing/operator_trace.py": {"torch.utils._python_dispatch.TorchDispatchMode"},
    # their text stands in generated modules, which need torch alone
    "converters/onnx_to_torch/helpers/bounded_loops.py": {
        "torch._check", "torch._higher_order_ops", "torch._higher_order_ops.while_loop",
    },
    "converters/onnx_to_torch/helpers/recurrent_layers.py": {
        "torch._higher_order_ops", "torch._higher_order_ops.while_loop",
    },
}  # fmt: skip
HOMES = (private_onnxscript, private_tensorflow, private_tf2onnx, private_torch)
SOURCES = sorted(file for layer in LAYERS for file in (ROOT / layer).rglob("*.py"))


def private_names(source: str) -> Iterator[str]:
    """Yield the private names that a module imports, or reaches by attributes, in its functions as well.

    Names for type checkers alone are left out: nothing breaks without them.
    """
    tree = parsed(source)
    for statement in tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            statement.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("Lazy", "import_module"):
            names = [".".join(str(part.value) for part in node.args if isinstance(part, ast.Constant))]
        else:
            continue
        yield from (name for name in names if PRIVATE.match(name))


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_private_names_of_libraries_have_one_home(file: Path) -> None:
    if file.stem.startswith("private_"):
        return
    assert set(private_names(file.read_text())) <= EXCEPTIONS.get(file.relative_to(ROOT).as_posix(), set())


def test_the_check_sees_every_way_to_reach_a_private_name() -> None:
    source = """
import tf2onnx.tfonnx
def f():
    from torch.onnx._internal import exporter
    from onnxscript.function_libs.torch_lib import ops
    from tensorflow.lite.python.convert import mlir_quantize
    torch._C.x
    torch.ops.aten._softmax.default
    torch.nn.functional.relu
    Lazy("torch._ops", "OpOverload")
if TYPE_CHECKING:
    from torch._subclasses import FakeTensor
"""
    assert set(private_names(source)) == {
        "tf2onnx.tfonnx", "torch.onnx._internal.exporter", "onnxscript.function_libs.torch_lib.ops",
        "tensorflow.lite.python.convert.mlir_quantize", "torch._C.x", "torch._C", "torch._ops.OpOverload",
    }  # fmt: skip


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.__name__.rpartition(".")[2])
def test_every_private_name_is_there(home: object) -> None:
    lost = []
    for name in vars(home)["MODULES"]:
        try:
            getattr(home, name)
        except (AttributeError, ImportError) as error:
            lost.append(f"{name}: {error}")
    assert lost == []


def test_every_private_name_asked_for_is_listed() -> None:
    homes = {home.__name__.rpartition(".")[2]: set(vars(home)["MODULES"]) for home in HOMES}
    unlisted = []
    for file in SOURCES:
        for node in nodes_of(file.read_text()):
            if isinstance(node, ast.Attribute) and (home := ast.unparse(node.value)) in homes:
                unlisted += [f"{file.name}: {home}.{node.attr}"] * (node.attr not in homes[home])
    assert unlisted == []
