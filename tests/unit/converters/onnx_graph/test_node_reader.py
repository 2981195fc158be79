"""What a reader notes, and where its defaults come from."""

import onnx.defs
import pytest

from transload.converters.onnx_graph.node_reader import attribute_defaults
from transload.models.errors import Refused

# Operator, opset, attribute and its default in that wording, by the text of the specification.
DEFAULTS = [
    ("Softmax", 12, "axis", 1),
    ("Softmax", 13, "axis", -1),
    ("GridSample", 16, "mode", "bilinear"),
    ("GridSample", 20, "mode", "linear"),
    ("LeakyRelu", 16, "alpha", 0.01),
    ("BatchNormalization", 15, "epsilon", 1e-5),
    ("LRN", 13, "alpha", 1e-4),
    ("Resize", 19, "cubic_coeff_a", -0.75),
    ("MeanVarianceNormalization", 13, "axes", [0, 2, 3]),
    ("QuantizeLinear", 13, "axis", 1),
    ("Trilu", 14, "upper", 1),
]


@pytest.mark.parametrize(("op_type", "opset", "name", "default"), DEFAULTS)
def test_a_default_is_that_of_the_wording(op_type, opset, name, default):
    assert attribute_defaults(op_type, opset, "")[name] == default


def test_every_default_of_the_specification_can_be_read():
    schemas = [schema for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain]
    for schema in schemas:
        defaults = attribute_defaults(schema.name, schema.since_version, "")
        with_defaults = {name for name, it in schema.attributes.items() if it.default_value.name}
        assert set(defaults) == with_defaults, schema.name


def test_an_operator_that_onnx_does_not_define_has_no_defaults(read, values):
    op = read("Attention", [values.tensor(1)], opset=20, domain="com.microsoft")
    assert attribute_defaults("Attention", 1, "com.microsoft") == {}
    assert op.real("scale", 0.5) == 0.5
    with pytest.raises(Refused, match="its attribute num_heads is not given"):
        op.integer("num_heads")


def test_the_attribute_of_the_node_goes_before_the_default(read, values):
    assert read("LeakyRelu", [values.tensor(1)], opset=20, alpha=0.5).real("alpha") == 0.5


def test_a_node_is_read_as_the_wording_of_another_operator(read, values):
    op = read("QLinearSoftmax", [values.tensor(1)], opset=20, domain="com.microsoft", axis=0)
    inner = op.read_as("Softmax", 13)
    assert (inner.integer("axis"), inner.version, inner.op_type) == (0, 13, "Softmax")
    op._inputs_read.add(0)
    op.check_all_read([values.tensor(1)])  # what was read as Softmax is read


@pytest.mark.parametrize(
    ("message", "options", "inputs", "outputs"),
    [
        ("its attribute alpha is not carried", {"alpha": 1.0}, 1, 1),
        ("its optional input 1 is not carried", {}, 2, 1),
        ("its optional output 1 is not carried", {}, 1, 2),
    ],
)
def test_whatever_was_not_read_is_refused(read, values, message, options, inputs, outputs):  # noqa: PLR0917
    op = read("Relu", [values.tensor(2)] * inputs, opset=20, outputs=outputs, **options)
    result = op.value(0)
    with pytest.raises(Refused, match=message):
        op.check_all_read([result])


def test_asking_is_not_reading(read, values):
    op = read("Relu", [values.tensor(2)], opset=20, alpha=1.0)
    assert (op.has("alpha"), op.has_input(0), op.has_input(1)) == (True, True, False)
    with pytest.raises(Refused, match="its attribute alpha is not carried"):
        op.check_all_read([None])


def test_a_sequence_is_no_tensor(read, values):
    op = read("Relu", [values.sequence()], opset=20)
    assert op.anything(0) is not None
    with pytest.raises(Refused, match="its input 0 is a sequence of tensors"):
        op.value(0)


@pytest.mark.parametrize("axis", [-4, 3])
def test_an_axis_lies_within_the_rank(read, values, axis):
    op = read("Concat", [values.tensor(1, 2, 3)], opset=20, axis=axis)
    with pytest.raises(Refused, match=f"its axis {axis} is none of 3 axes"):
        op.axis("axis", rank=3)


def test_inputs_are_held_against_the_dtypes_of_their_type_variable(read, values):
    op = read("Add", [values.tensor(2), values.tensor(2, dtype="uint16")], opset=20)
    with pytest.raises(Refused, match="its input 1 is uint16, and only float32 can be carried"):
        op.check_dtypes({"T": frozenset({"float32"})})
    op.check_dtypes({})
