"""A user's model of Keras or TensorFlow in their own interpreter: made or loaded, described, called and saved."""

from __future__ import annotations

import inspect
import keyword
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .factory_settings import factory_arguments
from .failures import Refusal
from .user_code_import import import_object

if TYPE_CHECKING:
    import numpy as np

KERAS_FILES = (".keras", ".h5", ".hdf5")
_SEED = 0
_POSITIONAL = int(inspect.Parameter.POSITIONAL_OR_KEYWORD)
_OF_KERAS = ("training", "mask")  # parameters of a layer's call that are no inputs
_HALVES = ("float16", "bfloat16")


def prepare_tensorflow(threads: int, *, onednn: bool) -> str:
    """Import TensorFlow with so many threads, on the CPU, and return its version."""
    os.environ.update(
        CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="2", TF_ENABLE_ONEDNN_OPTS=str(int(onednn)),
        KERAS_BACKEND="tensorflow",
    )  # fmt: skip
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return str(tf.__version__)


class TensorFlowModel:
    """The Keras model or tf.Module that a reference names, as it answers outside of training."""

    def __init__(
        self, *, file: str | None, module: str | None, name: str, root: str | None, settings: Mapping[str, Any],
        recorded: Mapping[str, Any],  # noqa: ARG002  (of a checkpoint of torch)
    ) -> None:  # fmt: skip
        import tensorflow as tf

        self.text = f"{file or module}:{name}"
        self._holder: object = None
        here = os.getcwd()
        if root:
            os.chdir(root)
        try:
            tf.keras.utils.set_random_seed(_SEED)
            if file and file.endswith(KERAS_FILES):
                self.text = file
                self.model = _load_file(file, settings)
            else:
                factory, self._holder = import_object(file, module, name, root)
                tf.keras.utils.set_random_seed(_SEED)
                self.model = _made_by(factory, settings, self.text)
        finally:
            os.chdir(here)
        if not _is_model(self.model):
            fix = "name a class, a function or an instance that gives a keras.Model or a tf.Module"
            raise Refusal(f"{self.text} gives a {type(self.model).__name__}, not a model of Keras or TensorFlow", fix)
        self._inputs = _symbolic_inputs(self.model)
        self.names = _input_names(self.model, self._inputs)
        self._outputs = _output_names(self.model) if self._inputs else None
        self._before = self.state()

    def describe(self) -> dict[str, Any]:
        """Return what transload asks of a model before it calls it (module_proxy.ModuleDescription)."""
        weights = [array for _, array in _weights(self.model)]
        unbuilt = [] if getattr(self.model, "built", True) else [f"the model {self.model.name}"]
        halves = [name for name, array in _weights(self.model) if str(array.dtype) in _HALVES]
        if halves:
            fix = "make it in float32: keras.backend.set_floatx('float32'), and its weights cast to that"
            raise Refusal(f"the weight {halves[0]} of {self.text} is of half precision", fix)
        return {
            "name": type(self.model).__name__,
            "forward": [[name, _POSITIONAL, optional] for name, optional in self.names.items()],
            "modules": {},
            "lazy": unbuilt,
            "meta": [],
            "quantized": [],
            "parameters": sum(int(array.size) for array in weights),
            "tables": sorted({len(array) for array in weights if array.ndim == 2}),
            "buffers": [],
            "inputs": [self._declared(name, tensor) for name, tensor in zip(self.names, self._inputs)],
            "notes": training_notes(self.model) if self._inputs else [],
        }

    def _declared(self, name: str, tensor: Any) -> dict[str, Any]:
        if getattr(tensor, "sparse", False) or getattr(tensor, "ragged", False):
            raise Refusal(f"the input {name} of {self.text} is sparse or ragged", "make a model of dense tensors")
        dtype = getattr(tensor.dtype, "name", str(tensor.dtype))
        return {"name": name, "dtype": dtype, "shape": [None if size is None else int(size) for size in tensor.shape]}

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the weights by number and name: names alone need not differ."""
        return dict(_weights(self.model))

    def load_state(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Put other weights into the model."""
        for name, weight in zip(self.state(), _variables(self.model)):
            weight.assign(state[name])
        self._before = self.state()

    def changed(self) -> dict[str, Any]:
        """Return the names of weights that calls have changed."""
        now = self.state()
        names = [
            name for name in now if name not in self._before or now[name].tobytes() != self._before[name].tobytes()
        ]
        return {"tensors": names, "training": []}

    def example(self) -> tuple[Any, str] | None:
        """Return what example_inputs() beside the factory gives, as a tree, and where it stands; None without it."""
        import tensorflow as tf

        beside = getattr(self._holder, "example_inputs", None)
        if not callable(beside):
            return None
        value = tf.nest.map_structure(lambda part: part.numpy() if hasattr(part, "numpy") else part, beside())
        return value, f"example_inputs() of {self.text}"

    def call(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """Return the outputs by name."""
        import tensorflow as tf

        wide = tf.nest.map_structure(tf.convert_to_tensor, (list(arguments), dict(keywords)))
        return {name: value.numpy() for name, value in self.outputs(*wide).items()}

    def outputs(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs by name, as TensorFlow's tensors. Works in a tf.function, too."""
        import tensorflow as tf

        values = tf.nest.flatten(result := self._called(arguments, keywords))
        if any(hasattr(value, "dense_shape") or hasattr(value, "row_splits") for value in values):
            raise Refusal(f"{self.text} returns a sparse or ragged tensor", "let it return dense ones")
        names = self._outputs or _names_of_result(result)
        if len(names) != len(values):
            raise Refusal(f"{self.text} returns {len(values)} outputs and names {len(names)}", "return each once")
        return {name: tf.convert_to_tensor(value) for name, value in zip(names, values)}

    def _called(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        import tensorflow as tf

        if not self._inputs:
            quiet = {"training": False} if "training" in _parameters(_function_of(self.model)) else {}
            return self.model(*arguments, **keywords, **quiet)
        by_name = {**dict(zip(self.names, arguments)), **keywords}
        tensors = [by_name[name] for name in self.names]
        packed = tf.nest.pack_sequence_as(_side(self.model, "input"), tensors)
        return self.model(packed, training=False)


def training_notes(model: Any) -> list[str]:
    """Name the layers that a functional model of Keras 3 calls with training=True, which training=False overrides."""
    layers = [
        layer.name
        for layer in model._flatten_layers()
        for node in getattr(layer, "_inbound_nodes", ())
        if hasattr(node, "arguments") and node.arguments.kwargs.get("training") is True
    ]
    if not layers:
        return []
    return [
        f"called with training=True: {', '.join(layers)}. model(x) follows that, and model.predict does not: copies "
        "answer as model.predict does, without dropout and by the recorded averages"
    ]


def _load_file(file: str, settings: Mapping[str, Any]) -> Any:
    """Load the model of a file by their Keras. Raises Refusal where that cannot."""
    import tensorflow as tf

    if settings:
        raise Refusal(f"{file} is a file, and takes no settings", "leave --set out")
    try:
        import keras
    except ImportError:
        keras = tf.keras
    load = getattr(keras, "models", tf.keras.models).load_model
    try:
        return load(file, compile=False)
    except Exception as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        fix = "write a function that loads it, with custom_objects for layers of yours, and name that: FILE.py:make"
        raise Refusal(f"Keras {keras.__version__} there cannot load {file}: {said}", fix) from error


def _made_by(factory: Any, settings: Mapping[str, Any], text: str) -> Any:
    if not callable(factory) or (_is_model(factory) and not inspect.isclass(factory)):
        if settings:
            raise Refusal(f"{text} is no class and no function, and takes no settings", "leave --set out")
        return factory
    return factory(**factory_arguments(factory, settings, text))


def _is_model(value: Any) -> bool:
    """Return whether a value is a model of any Keras (2, 3 and tf_keras have classes of their own), or a tf.Module."""
    return callable(value) and hasattr(value, "variables") and (hasattr(value, "call") or hasattr(value, "submodules"))


def _variables(model: Any) -> list[Any]:
    """Return what the model computes with; `variables` of a Keras model has the states of its random numbers, too."""
    return list(model.weights if hasattr(model, "weights") else model.variables)


def _weights(model: Any) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Return the variables that hold numbers, each by its number and name."""
    rows = []
    for at, weight in enumerate(_variables(model)):
        array = weight.numpy() if hasattr(weight, "numpy") else weight.value.numpy()
        if array.dtype.kind not in "biufV":
            raise Refusal(f"the weight {weight.name} is {array.dtype}", "make a model of numbers")
        rows.append((f"{at}.{getattr(weight, 'path', weight.name)}", array))
    return rows


def _symbolic_inputs(model: Any) -> list[Any]:
    """Return the inputs of a model that is a graph of layers; none for one whose call is Python."""
    try:
        inputs, outputs = getattr(model, "inputs", None), getattr(model, "outputs", None)
    except (AttributeError, ValueError):  # of a Sequential that was never built
        return []
    return list(inputs) if inputs and outputs else []


def _side(model: Any, side: str) -> Any:
    """Return the nested inputs or outputs of a graph of layers.
    A Sequential of Keras 3 that was never called has lists alone."""
    try:
        return getattr(model, side)
    except (AttributeError, ValueError):
        rows = getattr(model, f"{side}s")
        return rows[0] if len(rows) == 1 else rows


def _input_names(model: Any, inputs: Sequence[Any]) -> dict[str, bool]:
    """Return the names of the inputs, and whether each may be left out."""
    if inputs:
        return {_plain(tensor.name, at): False for at, tensor in enumerate(inputs)}
    rows = _parameters(_function_of(model))
    return {name: default for name, default in rows.items() if name not in _OF_KERAS}


def _function_of(model: Any) -> Any:
    """Return the Python function behind a model: a layer's call, or what a tf.Module is called by."""
    function = type(model).call if hasattr(model, "call") else type(model).__call__
    return getattr(function, "python_function", function)


def _parameters(function: Any) -> dict[str, bool]:
    """Return the parameters of a method that take a value, with whether each has a default."""
    empty, kinds = inspect.Parameter.empty, (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    rows = list(inspect.signature(function).parameters.values())[1:]
    return {row.name: row.default is not empty for row in rows if row.kind not in kinds}


def _plain(name: str, at: int) -> str:
    """Return a name that Python and TensorFlow take for an argument."""
    plain = re.sub(r"\W", "_", name.partition(":")[0])
    return plain if re.match(r"[A-Za-z]", plain) and not keyword.iskeyword(plain) else f"input_{plain or at}"


def _output_names(model: Any) -> list[str]:
    """Return the keys of a dict that the model returns, else the names of the layers that made its outputs."""
    output = _side(model, "output")
    if isinstance(output, dict):
        return sorted(output)  # as tf.nest flattens a dict
    names = [re.sub(r"\W", "_", name) for name in getattr(model, "output_names", None) or [model.layers[-1].name]]
    return [name if names.count(name) == 1 else f"{name}_{at}" for at, name in enumerate(names)]


def _names_of_result(result: Any) -> list[str]:
    """Return the names of what a call returned: keys of a dict, numbers of a sequence."""
    if isinstance(result, Mapping):
        return sorted(map(str, result))
    return [f"output_{at}" for at in range(len(result))] if isinstance(result, (tuple, list)) else ["output"]
