"""Names of torch that it does not promise to keep. Each is imported when it is first used; look here after an upgrade.

Used as `private_torch.NAME`. Names that patches swap stand in the ledger as well; models/ has one exception of its own
(tests/architecture/test_private_names.py says which).
"""

from __future__ import annotations

from typing import Any

from ..lazy_import import name_of

_TORCHSCRIPT_EXPORTER = "torch.onnx._internal.torchscript_exporter"
MODULES = {  # by name, the module that has it
    **dict.fromkeys((f"symbolic_opset{opset}" for opset in (9, 10, 11, 13, 14)), _TORCHSCRIPT_EXPORTER),
    "CompilationUnit": "torch._C",
    "DimDynamic": "torch.fx.experimental.symbolic_shapes",
    "FakeTensorMode": "torch._subclasses.fake_tensor",
    "GuardOnDataDependentSymNode": "torch.fx.experimental.symbolic_shapes",
    "Mod": "torch.utils._sympy.functions",
    "OpOverload": "torch._ops",
    "PythonMod": "torch.utils._sympy.functions",
    "ShapeEnv": "torch.fx.experimental.symbolic_shapes",
    "StatelessSymbolicContext": "torch.fx.experimental.symbolic_shapes",
    "TS2EPConverter": "torch._export.converter",
    "TracerWarning": "torch.jit._trace",
    "UserError": "torch._dynamo.exc",
    "ValueRanges": "torch.utils._sympy.value_ranges",
    "_building": "torch.onnx._internal.exporter",
    "_core": "torch.onnx._internal.exporter",
    "_torchlib_registry": "torch.onnx._internal.exporter._torchlib",
    "bound_sympy": "torch.utils._sympy.value_ranges",
    "call_op": "torch.onnx._internal.exporter._torchlib.ops.hop",
    "enable_python_dispatcher": "torch._dispatch.python",
    "import_ir_module": "torch._C",
    "int_oo": "torch.utils._sympy.numbers",
    "schema": "torch._export.serde",
    "statically_known_true": "torch.fx.experimental.symbolic_shapes",
    "tree_leaves": "torch.utils._pytree",
    "tree_unflatten": "torch.utils._pytree",
    "wrap_cpp_module": "torch.jit._recursive",
}


def __getattr__(name: str) -> Any:
    return name_of(MODULES, name, __name__)
