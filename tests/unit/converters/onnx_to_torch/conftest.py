"""A bench for single operators: the generated module, and the program exported of it, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

from transload.converters.onnx_graph.graph import read_model
from transload.converters.onnx_to_torch.generate_module import GeneratedModule, generate
from transload.converters.onnx_to_torch.module_writer import array_of, torch_tensor
from transload.converters.to_pytorch.pt2_from_onnx import load_module, write_module

Array = np.ndarray[Any, np.dtype[Any]]
OPSET = 20


@dataclass(frozen=True)
class Bench:
    """Writes modules into a folder of its own."""

    folder: Path

    def model(
        self,
        nodes: Sequence[onnx.NodeProto],
        inputs: Mapping[str, Array],
        outputs: Sequence[str],
        *,
        constants: Mapping[str, Array] | None = None,
        dynamic: Sequence[int] = (),
        opset: int = OPSET,
        functions: Sequence[onnx.FunctionProto] = (),
    ) -> Path:
        """The file of a model. The axes in `dynamic` have names of their own in every input."""
        given = [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(each.dtype),
                [f"{name}_{at}" if at in dynamic else size for at, size in enumerate(each.shape)],
            )
            for name, each in inputs.items()
        ]
        made = [helper.make_empty_tensor_value_info(name) for name in outputs]
        held = [numpy_helper.from_array(each, name) for name, each in (constants or {}).items()]
        graph = helper.make_graph(list(nodes), "test", given, made, held)
        imports = [
            helper.make_opsetid("", opset),
            helper.make_opsetid("com.microsoft", 1),
            helper.make_opsetid("own", 1),
        ]
        path = self.folder / "model.onnx"
        onnx.save(helper.make_model(graph, ir_version=10, opset_imports=imports, functions=list(functions)), path)
        return path

    def written(self, path: Path, inputs: Mapping[str, Array]) -> GeneratedModule:
        """The module of a file, traced with these inputs."""
        return generate(read_model(path), [torch_tensor(each) for each in inputs.values()])

    @staticmethod
    def answers(path: Path, fed: Mapping[str, Array]) -> Sequence[Array]:
        """What the model itself answers, by ONNX Runtime."""
        return judged(path, fed)

    def module(self, path: Path, inputs: Mapping[str, Array]) -> torch.nn.Module:
        """As `written`, loaded from its folder."""
        write_module(self.written(path, inputs), self.folder)
        return load_module(self.folder)

    def agrees(
        self,
        op_type: str,
        *inputs: Array | None,
        constants: Mapping[int, Array] | None = None,
        outputs: int = 1,
        opset: int = OPSET,
        domain: str = "",
        free: Sequence[int] = range(9),
        **attributes: Any,
    ) -> None:
        """One operator with static axes and with dynamic ones, eager and exported, against ONNX Runtime.
        `constants`: inputs by their place that the model holds itself; `free`: the axes that are dynamic then."""
        known = constants or {}
        last = max([len(inputs) - 1, *known])
        everything = [known.get(at, inputs[at] if at < len(inputs) else None) for at in range(last + 1)]
        names = ["" if each is None else f"in{at}" for at, each in enumerate(everything)]
        node = helper.make_node(op_type, names, [f"out{at}" for at in range(outputs)], domain=domain, **attributes)
        fed = {f"in{at}": each for at, each in enumerate(everything) if each is not None and at not in known}
        held = {f"in{at}": each for at, each in known.items()}
        for dynamic in ((), free):
            path = self.model([node], fed, list(node.output), constants=held, opset=opset, dynamic=dynamic)
            self.same(path, fed, dynamic=dynamic)

    def same(self, path: Path, fed: Mapping[str, Array], *, dynamic: Sequence[int] = (), want: Any = None) -> None:
        """The module answers as it should, and where it has dynamic axes so does the program exported of it."""
        expected = judged(path, fed) if want is None else want
        module = self.module(path, fed)
        tensors = tuple(torch_tensor(each) for each in fed.values())
        close(module(*tensors), expected)
        if not dynamic:
            return
        shapes = tuple({at: torch.export.Dim.DYNAMIC for at in dynamic if at < each.dim()} for each in tensors)
        with torch.no_grad():
            program = torch.export.export(module, tensors, dynamic_shapes=shapes, strict=False)
        close(program.module()(*tensors), expected)


def judged(path: Path, fed: Mapping[str, Array]) -> Sequence[Array]:
    """ONNX Runtime's answers; onnx's reference implementation's where that one has no kernel."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001  whatever it raises, it does not take the model
        from onnx.reference import ReferenceEvaluator

        return list(ReferenceEvaluator(str(path)).run(None, dict(fed)))
    return list(session.run(None, dict(fed)))


def close(made: Any, expected: Sequence[Array]) -> None:
    """Equal in shape, dtype and values."""
    given = list(made) if isinstance(made, tuple | list) else [made]
    assert len(given) == len(expected)
    for have, want in zip(map(array_of, given), map(np.asarray, expected), strict=True):
        assert (have.shape, have.dtype) == (want.shape, want.dtype)
        if want.dtype.kind in "iub":
            np.testing.assert_array_equal(have, want)
        else:
            narrow = want.dtype.itemsize < 4
            np.testing.assert_allclose(
                have.astype(np.float64), want.astype(np.float64), rtol=2e-2 if narrow else 1e-4, atol=1e-5
            )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A bench over an empty folder. What Dynamo knows of functions is dropped: an earlier test that patched some of
    them may have made it note the patches in their place."""
    torch.set_num_threads(1)
    torch._dynamo.trace_rules.clear_lru_cache()
    return Bench(tmp_path)


def numbers(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    """Random numbers of both signs; whole ones where the dtype is."""
    rng = np.random.default_rng(seed + sum(shape))
    if np.dtype(dtype).kind in "iu":
        low = 0 if np.dtype(dtype).kind == "u" else -20
        return rng.integers(low, 20, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
