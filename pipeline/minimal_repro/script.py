"""Scripts that show a defect at its smallest piece, for a bug report: versions, inputs and expected outputs.

A script needs the files beside it, the library at fault, and nothing else of the run. It fails for as long as the
defect exists, with the converter's own error or at the comparison.
"""

from __future__ import annotations

import platform
import pprint
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...converters.to_onnx.onnx_from_pt2 import DYNAMO_OPSET
from ...converters.to_onnx.onnx_from_source import TORCHSCRIPT_OPSET
from ...models.signature import Signature, TensorSpec
from ..workers.toolchain import version_of
from .search_records import PieceFacts, SearchOptions

if TYPE_CHECKING:
    from ...converters.minimal_repro.graph_pieces import GraphPiece
    from ...converters.minimal_repro.pt2_pieces import ProgramPiece
    from ...converters.minimal_repro.torch_pieces import ModulePiece

PIECE = "piece"  # the name of the files in the result, which the run renames

_HEAD = '''"""{title}

{story}

Versions: {versions}.
Run it beside the files of the same name: it fails for as long as the defect is there. It runs the model's code, and
nothing keeps that from your files.
"""
'''

_COMPARE = '''

def compare(got, expected):
    """Names, shapes, dtypes, and values to {least_db:g} dB of signal to noise."""
    for name, want in expected.items():
        have = np.asarray(got[name])
        print(name, "expected", want.dtype, want.shape, "got", have.dtype, have.shape)
        assert have.shape == want.shape and have.dtype == want.dtype, f"{{name}}: another shape or dtype"
        if want.dtype.kind != "f":
            assert np.array_equal(have, want), f"{{name}}: {{np.sum(have != want)}} of {{want.size}} elements differ"
            continue
        have, want = have.astype(np.float64), want.astype(np.float64)
        assert np.array_equal(np.isfinite(have), np.isfinite(want)), f"{{name}}: not finite elsewhere"
        finite = np.isfinite(want)
        noise, signal = np.sum((have - want)[finite] ** 2), np.sum(want[finite] ** 2)
        assert noise <= signal * {share:g}, f"{{name}}: off by up to {{np.abs(have - want)[finite].max():g}}"


def group(kind):
    """The arrays of one kind by name: what goes in, what is expected, and what came when the script was made."""
    return {{name.partition("/")[2]: DATA[name] for name in DATA.files if name.startswith(f"{{kind}}/")}}


compare(convert_and_run(group("in")), group("expected"))
'''

_OURS = """
import tempfile
from pathlib import Path

import numpy as np
from {module} import {function}
{imports}from transload.models.artifact import write_artifact
from transload.models.formats import parse_target
from transload.models.job import Job
from transload.models.signature import Signature
from transload.pipeline.drift.sessions import default_runtime, open_session

MODEL = Path(__file__).resolve().with_suffix("{suffix}")
DATA = np.load(MODEL.with_suffix(".npz"))
SIGNATURE = Signature.from_json(
    {signature}
)


def convert_and_run(inputs):
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder, "given"), Path(folder, "out")
        given.mkdir()
        out.mkdir()
        {write}
        write_artifact(given, parse_target("{format}"), SIGNATURE)
        {function}(Job(inputs={{"source": given}}, out=out, options={options}))
        session = open_session(default_runtime(out), out)
        return dict(session.run(inputs))
"""

_TORCH = """
import tempfile
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve()
DATA = np.load(HERE.with_suffix(".npz"))
{piece}INPUTS, OUTPUTS = {inputs}, {outputs}


def tensors(kind):
    return tuple(torch.from_numpy(DATA[f"{{kind}}/{{name}}"]) for name in INPUTS)


def named(made):
    made = list(made.values()) if isinstance(made, dict) else made
    return dict(zip(OUTPUTS, made if isinstance(made, (list, tuple)) else [made]))


def convert_and_run(inputs):
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
{convert}
"""

_ROOT = """
import sys

sys.path.append({root!r})  # the model's own code
"""

_OF_MODEL = """
from transload.models.loading.build import build_model

# The model as it was given, and the module of it that fails.
piece = build_model(HERE.with_suffix(".source")).get_submodule({path!r})
"""

_FLAT = """
from transload.converters.minimal_repro.torch_pieces import flat

piece = flat(piece, {inputs})  # what it gives as one tuple
"""

_OF_PROGRAM = '''
{imports}
class Piece(torch.nn.Module):
    """What fails of the exported program, as torch.fx writes it."""

    def __init__(self):
        super().__init__()
        for name in DATA.files:
            kind, _, rest = name.partition("/")
            if kind == "weight":
                self.register_buffer(rest, torch.from_numpy(DATA[name]))

{code}


piece = Piece().eval()
'''

_CONVERT = {
    "torch.export": """\
        shapes = tuple(dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for axes in {dynamic})
        program = torch.export.export(piece, tensors("example"), dynamic_shapes=shapes, strict=False)
        return named(program.module()(*tensors("in")))""",
    "torch.jit": """\
        traced = torch.jit.freeze(torch.jit.trace(piece, tensors("example"), strict=False))
        return named(traced(*tensors("in")))""",
    "torch.onnx-dynamo": """\
        import onnxruntime

        shapes = tuple(dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for axes in {dynamic})
        program = torch.export.export(piece, tensors("example"), dynamic_shapes=shapes, strict=False)
        names = [f"result.{{name}}" for name in OUTPUTS]
        exported = torch.onnx.export(
            program, dynamo=True, opset_version={opset}, input_names=INPUTS, output_names=names
        )
        exported.save(f"{{folder}}/model.onnx")
        session = onnxruntime.InferenceSession(f"{{folder}}/model.onnx", providers=["CPUExecutionProvider"])
        return dict(zip(OUTPUTS, session.run(None, inputs)))""",
    "torch.onnx-torchscript": """\
        import onnxruntime

        axes = [dict.fromkeys(each) for each in {dynamic}]
        axes = dict(zip(INPUTS, [{{at: f"axis{{at}}" for at in each}} for each in axes]))
        torch.onnx.export(
            piece, tensors("example"), f"{{folder}}/model.onnx", dynamo=False, opset_version={opset},
            input_names=INPUTS, output_names=OUTPUTS, dynamic_axes=axes,
        )
        session = onnxruntime.InferenceSession(f"{{folder}}/model.onnx", providers=["CPUExecutionProvider"])
        return dict(zip(OUTPUTS, session.run(OUTPUTS, inputs)))""",
}
_ANY_STEP = """\
        from importlib import import_module

        from transload.converters.minimal_repro.torch_pieces import hold
        from transload.models.job import Job
        from transload.models.signature import Signature
        from transload.pipeline.drift.sessions import default_runtime, open_session

        made = Path(folder, "given")
        made.mkdir()
        hold(piece, Signature.from_json({signature}), made)
        for at, (entry, options) in enumerate({chain}):
            given, made = made, Path(folder, f"out{{at}}")
            made.mkdir()
            module, _, function = entry.partition(":")
            getattr(import_module(module), function)(Job(inputs={{"source": given}}, out=made, options=options))
        return dict(open_session(default_runtime(made), made).run(inputs))"""


def full_script(options: SearchOptions, facts: PieceFacts, conversion: str) -> str:
    """Return a script: what fails, where it comes from and with which versions; its conversion; the comparison."""
    story = (
        f"{facts.where[:1].upper()}{facts.where[1:]}, converted by {options.step}: {facts.kind}: {facts.message}. "
        f"It is {_count(facts.operators)} of the model {options.model}, fed with what it is fed there."
    )
    title = f"{options.step} to {options.target} fails at {facts.operator}."
    head = _HEAD.format(title=_in_docstring(title), story=_in_docstring(story), versions=_versions(options.requires))
    return head + conversion + _COMPARE.format(least_db=options.least_db, share=10 ** (-options.least_db / 10))


def _in_docstring(text: str) -> str:
    """Return text that ends no docstring: names of a model's classes and operators stand in it."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return "\n".join(textwrap.wrap(printable.replace("\\", "/").replace('"', "'"), 116))


def convert_module(options: SearchOptions, piece: ModulePiece, root: str | None) -> str:
    """Return the conversion of a module of a PyTorch model, whose code lies in `root`."""
    text = _ROOT.format(root=root) if root else ""
    text += _OF_MODEL.format(path=piece.path)
    text += _FLAT.format(inputs=names_of(piece.signature.inputs)) if piece.nested else ""
    return _convert_torch(options, piece.signature, text)


def convert_program(options: SearchOptions, piece: ProgramPiece) -> str:
    """Return the conversion of a piece of an exported program."""
    lines = "".join(f"{line}\n" for line in piece.imports)
    text = _OF_PROGRAM.format(imports=f"{lines}\n" if lines else "", code=piece.code)
    return _convert_torch(options, piece.signature, text)


def _convert_torch(options: SearchOptions, signature: Signature, piece: str) -> str:
    (_, step_options), is_single = options.chain[-1], len(options.chain) == 1
    template = _CONVERT.get(options.step.partition("@")[0], _ANY_STEP)
    convert = template.format(
        chain=[(entry, dict(step_arguments)) for entry, step_arguments in options.chain],
        signature=signature.to_json(),
        dynamic=[list(spec.dynamic_axes) for spec in signature.inputs],
        opset=step_options.get("opset", TORCHSCRIPT_OPSET if is_single else DYNAMO_OPSET),
    )
    inputs, outputs = names_of(signature.inputs), names_of(signature.outputs)
    return _TORCH.format(piece=piece, inputs=inputs, outputs=outputs, convert=convert)


def names_of(specs: Sequence[TensorSpec]) -> list[str]:
    """Return the names of some tensors."""
    return [spec.name for spec in specs]


def convert_by_step(options: SearchOptions, piece: GraphPiece, write: str = "", imports: str = "") -> str:
    """Return the conversion by the step itself, of transload or another package.
    `write`: the lines that make the payload from the piece's file, with their `imports`; by default that file is it."""
    entry, step_options = options.chain[-1]
    module, _, function = entry.partition(":")
    return _OURS.format(
        module=module,
        function=function,
        imports=imports,
        suffix=piece.suffix,
        signature=pprint.pformat(piece.signature.to_json(), width=110, sort_dicts=False).replace("\n", "\n    "),
        write=write or f'(given / "{piece.form.spec.payload}").write_bytes(MODEL.read_bytes())',
        format=piece.form,
        options=dict(step_options),
    )


def _count(operators: int | None) -> str:
    if operators is None:
        return "a module"
    return "one operator" if operators == 1 else f"{operators} operators"


def _versions(requires: tuple[str, ...]) -> str:
    versions = {"Python": platform.python_version(), "numpy": version_of("numpy")}
    versions |= {name: version_of(name) for name in requires}
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)
