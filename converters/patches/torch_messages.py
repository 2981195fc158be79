"""The texts of torch's messages that transload reads: after an upgrade, tests show whether torch still writes them.

tests/unit/converters/patches/test_torch_messages.py produces each message for real.
"""

from __future__ import annotations

import re

# torch.export: UserError where a dynamic axis became a constant, and its names of axes
SPECIALIZED_AXIS = re.compile(
    r"marked (?P<source>L\[.*?\]\.size\(\)\[\d+\]) as dynamic but .*? a constant \((?P<size>\d+)\)"
)
SPECIALIZED = re.compile(r"specialized")
AXIS_SOURCE = re.compile(r"L\['(?P<name>\w+)'\](?P<part>\[(?P<at>\d+)\])?\.size\(\)\[(?P<axis>\d+)\]")
# the logger SHAPE_LOGGER, at the level INFO, while torch.export captures
SHAPE_LOGGER = "torch.fx.experimental.symbolic_shapes"
CREATED_SYMBOL = re.compile(r"create_symbol (?P<symbol>\w+) = \d+ for (?P<source>L\[.*?\]\.size\(\)\[\d+\])")
ADDED_GUARD = re.compile(r"eval (?P<guard>.+?) \[guard added\]")
# torch.export and torch.jit.trace at derivatives and functional calls
NO_DERIVATIVE = re.compile(r"object has no attribute 'constant'")
STATELESS = re.compile(r"The stateless API can't be used with Jitted modules")
# torch.jit.trace and torch.jit.save
TRACED_BRANCH = re.compile(r"Python boolean")
TRACED_LINE = re.compile(r"^(\S+\.py)\((\d+)\): ", re.MULTILINE)
PYTHON_CALL = re.compile(r"Python function call")
# torch.jit.script
SCRIPT_LINE = re.compile(r'File "(.+?)", line (\d+)')
SCHEMA = re.compile(r"[\w:.]+\(.*\) -> ")
MISMATCH = re.compile(r"^(Expected a value of|Could not match) type .*", re.MULTILINE)
FORWARD_COMPILED = re.compile(r"'\w+_forward' is being compiled")
NONE_TYPE = re.compile(r"instead found type 'NoneType'|previously had type NoneType")
RANGE_VALUE = re.compile(r"range cannot be used as a value")
REVERSED_TENSOR = re.compile(r"reversed\(Tensor 0\)")
CALLABLE_TYPE = re.compile(r"Unknown type name 'Callable'")
LAMBDA = re.compile(r"Lambda aren't supported")
# torch.onnx.export(dynamo=True)
NO_FUNCTION = re.compile(r"No ONNX function found")
COMPLEX_OPERATOR = re.compile(r"OpOverload\(op='([\w.]+)', overload='(\w+)'.*complex-valued", re.DOTALL)
