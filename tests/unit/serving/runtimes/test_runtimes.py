"""The table of runtimes against the modules that it names, and a framework that is not installed."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import onnx.parser
import onnxruntime
import pytest

from transload.models.artifact import write_artifact
from transload.models.errors import BadRequest, ToolMissing
from transload.models.formats import Format, Target
from transload.models.signature import Signature, TensorSpec
from transload.serving.checked_session import first_words
from transload.serving.runtimes.payload import opening
from transload.serving.runtimes.runtime_table import RUNTIMES, Runtime, runtimes_for

SIGNATURE = Signature((TensorSpec("x", "float32", ("batch",)),), (TensorSpec("y", "float32", ("batch",)),))
IN_PROCESS = [runtime for runtime in RUNTIMES.values() if not runtime.served]


@pytest.mark.parametrize("runtime", RUNTIMES.values(), ids=RUNTIMES)
def test_every_row_names_an_entry_of_the_promised_form(runtime: Runtime) -> None:
    module, _, name = runtime.entry.partition(":")
    parameters = list(inspect.signature(getattr(import_module(module), name)).parameters.values())
    promised = ["address", "model", "signature", "timeout_s"] if runtime.served else ["folder", "device", "threads"]
    assert [parameter.name for parameter in parameters[: len(promised)]] == promised
    assert all(parameter.default is not parameter.empty for parameter in parameters[len(promised) :])


def test_every_format_that_a_runtime_takes_leads_back_to_it() -> None:
    for runtime in RUNTIMES.values():
        held = ("FlexErf",) if runtime.flex else ()
        assert all(runtime in runtimes_for(form, held) for form in runtime.takes)


def test_what_holds_operators_of_tensorflows_is_taken_by_the_runtime_that_has_them_alone() -> None:
    assert [each.name for each in runtimes_for(Format.TFLITE)] == ["tflite", "oip-grpc", "oip-http"]
    assert [each.name for each in runtimes_for(Format.TFLITE, ["FlexErf"])] == ["tflite-flex"]


@pytest.mark.parametrize("runtime", IN_PROCESS, ids=lambda runtime: runtime.name)
def test_a_framework_that_is_not_installed_is_one_sentence(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = runtime.takes[0]
    (tmp_path / form.spec.payload).write_bytes(b"")
    write_artifact(tmp_path, Target(form), SIGNATURE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # TensorFlow's session sets it, and must not set ours
    missing = runtime.requires[0]
    for name in {missing, *(name for name in sys.modules if name.startswith(f"{missing}."))}:
        monkeypatch.setitem(sys.modules, name, None)  # with what an earlier test has loaded of it
    module, _, name = runtime.entry.partition(":")
    with pytest.raises(ToolMissing) as caught:
        getattr(import_module(module), name)(tmp_path, "cpu", 1)
    assert caught.value.what.startswith(f"{runtime.name} cannot be loaded: ")
    assert missing in caught.value.what
    assert caught.value.fix == "transload doctor"


def test_no_module_of_serving_imports_a_framework_or_the_pipelines_libraries() -> None:
    """A GPU machine with neither pydantic nor TensorFlow runs them."""
    code = (
        "import sys, pkgutil, importlib, transload.serving as s\n"
        "for m in pkgutil.walk_packages(s.__path__, 'transload.serving.'):\n"
        "    if not m.name.endswith('.mlserver_model'): importlib.import_module(m.name)  # it is MLServer's alone\n"
        "heavy = {'torch', 'tensorflow', 'tensorflow_serving', 'onnxruntime', 'ai_edge_litert', 'grpc', 'httptools',\n"
        "         'uvloop', 'pydantic', 'typer', 'rich', 'google.protobuf'}\n"
        "print(sorted(heavy & set(sys.modules)), 'transload.serving.server.embedded' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[] True\n"


def test_what_onnx_runtime_says_is_told_without_the_lines_of_its_source() -> None:
    text = (
        "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Reshape node. Name:'flat' "
        "Status Message: /onnxruntime_src/onnxruntime/core/providers/cpu/tensor/reshape_helper.h:91 "
        "onnxruntime::ReshapeHelper::ReshapeHelper(const onnxruntime::TensorShape&, bool) "
        "input_shape_size == requested_shape_size was false. The input tensor cannot be reshaped to the requested "
        "shape. Input shape:{2,2,2}, requested shape:{1,4}\n"
    )
    assert first_words(RuntimeError(text)) == (
        "Reshape node. Name:'flat' The input tensor cannot be reshaped to the requested shape. "
        "Input shape:{2,2,2}, requested shape:{1,4}"
    )
    assert first_words("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got x") == "Got x"
    loading = (
        "[ONNXRuntimeError] : 1 : FAIL : Load model from /m/a.onnx failed:/onnxruntime_src/core/graph/utils.h:46 void "
        "onnxruntime::Validate(const std::unordered_map<std::__cxx11::basic_string<char>, int>&, bool, int) Opset 99 is"
        " under development.\n"
    )
    assert first_words(RuntimeError(loading)) == "Opset 99 is under development."
    nested = (
        "[ONNXRuntimeError] : 6 : FAIL : Exception during initialization: /onnxruntime_src/core/base.h:314 "
        "onnxruntime::Base::Base(const KernelInfoType&) [with KernelInfoType = onnxruntime::OpKernelInfo] "
        "[ONNXRuntimeError] : 1 : FAIL : base.h:579 Check 'Cubic' mode only takes 4-D inputs\n"
    )
    assert first_words(RuntimeError(nested)) == "Exception during initialization: 'Cubic' mode only takes 4-D inputs"


def test_what_keras_says_has_its_layer_and_its_reason() -> None:
    text = "Exception encountered when calling UpSampling2D.call().\n\n\x1b[1mIt may not.\x1b[0m\n\nArguments received"
    assert first_words(ValueError(text)) == "UpSampling2D.call(): It may not."


def test_what_tensorflow_says_is_not_where_python_was() -> None:
    traced = (
        "Graph execution error:\n\nDetected at node add defined at (most recent call last):\n"
        '  File "<frozen runpy>", line 198, in _run_module_as_main\n\n  File "net.py", line 3, in call\n\n'
        "Incompatible shapes: [3] vs. [4]\n\t [[{{node add}}]] [Op:__inference_call_4]"
    )
    assert first_words(ValueError(traced)) == "Incompatible shapes: [3] vs. [4]"


def test_what_tensorflow_says_is_without_its_own_names() -> None:
    around = "{{function_node __wrapped__AddV2_device_/job:localhost/task:0/device:CPU:0}} "
    assert first_words(ValueError(f"{around}Wrong: [3] [Op:AddV2] name: ")) == "Wrong: [3]"
    keras = f"Exception encountered when calling Add.call().\n\n\x1b[1m{around}Wrong: [3] [Op:AddV2]\x1b[0m\n\nArg"
    assert first_words(ValueError(keras)) == "Add.call(): Wrong: [3]"


def test_an_error_that_says_nothing_is_told_by_its_class() -> None:
    assert first_words(ZeroDivisionError()) == "ZeroDivisionError"


def test_an_operator_that_onnx_runtime_has_not_of_a_dtype_is_told_with_what_to_do(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 20]> g (double[n] x) => (double[n] y) { y = Erf (x) }
    """)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    said = "it has no Erf of that node's dtype, mostly float64; compute that in float32"
    with pytest.raises(BadRequest, match=said), opening("onnxruntime", path):
        onnxruntime.InferenceSession(path)
