"""Our readers of texts: options of the command line, and the texts inside of programs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from byte_mutations import mutate_text
from container_mutations import TORCHSCRIPT_WORDS

_FILE = "text"


@dataclass(frozen=True)
class TextReader:
    """A reader of a text that is a mutation of a sample, or words of its language in any order."""

    name: str
    samples: Sequence[str]
    words: Sequence[str]
    parse: Callable[[str], object]
    framework: str = "plain"
    share: int = 5
    refusals: tuple[type[BaseException], ...] = ()

    def write(self, rng: random.Random, _seeds: Path, folder: Path) -> None:
        """Write a case."""
        if rng.random() < 0.2:
            text = "".join(rng.choice(self.words) for _ in range(rng.randrange(20)))
        else:
            text = mutate_text(rng, rng.choice(self.samples), self.words)
        (folder / _FILE).write_bytes(text.encode(errors="surrogatepass"))

    def read(self, folder: Path) -> object:
        """Read a case."""
        return self.parse((folder / _FILE).read_bytes().decode(errors="surrogatepass"))


def _parse_inputs(text: str) -> None:
    from transload.models.signature import Signature, TensorSpec, bounds_of
    from transload.pipeline.options.option_words import parse_inputs

    specs = parse_inputs(text.split(";"))
    bounds_of(specs)
    for spec in specs:
        if TensorSpec.from_json(spec.to_json()) != spec:
            raise AssertionError(f"{spec} is not read as it is written")
    Signature(specs, specs).to_json()


def _parse_options(text: str) -> None:
    """Parse a text as the value of one option, named before its first blank."""
    from transload.pipeline.options.option_words import (
        parse_batches,
        parse_duration,
        parse_runtimes,
        parse_settings,
        parse_share,
        parse_targets,
    )

    name, _, value = text.partition(" ")
    parsers: dict[str, Callable[[str], object]] = {
        "to": lambda value: parse_targets([value]), "runtime": lambda value: parse_runtimes([value]),
        "batch": lambda value: parse_batches([value]), "set": lambda value: parse_settings([value]),
        "time": parse_duration, "share": parse_share,
    }  # fmt: skip
    parsers.get(name, parse_share)(value)


def _parse_data(text: str) -> None:
    from transload.models.data_sources.data_argument import parse_data

    parse_data(text, str(Path.cwd()))


def _kind_of(text: str) -> None:
    from transload.pipeline.plan.model_argument import start_of

    start_of(text)


def _parse_url(text: str) -> None:
    from transload.serving.clients.model_url import is_model_url, parse_model_url
    from transload.serving.server.tfserving_launch import parse_url

    if is_model_url(text):
        parse_model_url(text)
    parse_url(text)


def _check_script(text: str) -> None:
    from transload.converters.readers.torchscript.torchscript_code import check_code

    check_code({"code/__torch__.py": text})


def _check_program_text(text: str) -> None:
    """Check a text of a program as the kind that is named before its first blank."""
    from transload.converters.readers.pt2 import pt2_texts

    kind, _, value = text.partition(" ")
    checks = {
        "guard": pt2_texts.check_guard, "structure": pt2_texts.check_structure, "name": pt2_texts.check_name,
        "path": pt2_texts.check_path, "symbol": pt2_texts.check_symbol, "free": pt2_texts.check_free,
    }  # fmt: skip
    checks.get(kind, pt2_texts.check_expression)(value)


_NUMBERS = ("0", "1", "-1", "3", "64", "1.5", "1e9", "9" * 30, "9" * 5000, "٣", "²", "NaN", "inf", "0x10", "1_0")
_INPUTS = ("x=float32[batch,4]", "ids=int64[batch=1..64,seq=8..]", "t=int32[n=32..1024:32] in 0..9",
           "x=float32[batch,3,h=0..];y=bool[batch]", "m=float16[2,batch] in -1.5..2e3")  # fmt: skip
_DATA = ("a.npz", "photos/?resize=256&crop=224x200&range=0..1&mean=0.5,0.4,0.3&std=1",
         "t.csv?label=a&columns=b,c&sep=;", "net.py:loader?samples=10", "t.parquet?label=x",
         "pkg.module:make")  # fmt: skip
_EXPRESSIONS = ("expr Mul(Integer(2), Symbol('s0', integer=True, positive=True))", "expr s0*4 + 1",
                "expr Max(Symbol('s1'), Pow(Integer(2), Integer(3)))", "guard L['x'].size()[0] % 2 == 0",
                "guard 2 <= L['args'][0].size()[1] and L['x'].stride()[0] != 3", "symbol s77", "path inner.weight",
                "expr FloorDiv(Add(Symbol('s0'), Float('0.5', precision=53)), Rational(1, 2))",
                'structure [1, {"type": "builtins.tuple", "context": "null", "children_spec": []}]', "name x_1",
                'structure [1, {"type": "builtins.dict", "context": "[\\"a\\"]", "children_spec": '
                '[{"type": null, "context": null, "children_spec": []}]}]')  # fmt: skip
_SCRIPT = """class Net(Module):
  __parameters__ = ["weight", ]
  __buffers__ = []
  weight : Tensor
  training : bool
  inner : __torch__.torch.nn.modules.linear.Linear
  def forward(self: __torch__.Net,
    x: Tensor) -> Tensor:
    inner = self.inner
    _0 = torch.add((inner).forward(x, ), CONSTANTS.c0, alpha=1)
    if torch.gt(torch.len(_0), 2):
      y = ops.prim.data(_0)
    else:
      y = annotate(List[Tensor], [_0])[0]
    return torch.slice(torch.to(y, 6), 0, 0, 9223372036854775807)
"""

TEXT_READERS = (
    TextReader("--input", _INPUTS, ("x", "=", "[", "]", ",", "..", ":", ";", " in ", "float32", "bool", *_NUMBERS),
               _parse_inputs, share=8),
    TextReader("options", ("to onnx,tflite:int8", "batch 1,8", "runtime onnxruntime,torch", "set depth=50",
                           'set a.b={"x": [1, null]}', "time 1.5m", "time 60s", "share 2%", "share 0.02"),
               ("to ", "batch ", "set ", "time ", "share ", ",", "=", ":", "%", "s", "int8", *_NUMBERS), _parse_options,
               share=8),
    TextReader("--data", _DATA, ("?", "&", "=", "size", "resize", "crop", "mean", "std", "range", "..", "x", ",",
                                 "order", "layout", "chw", "sep", "label", "samples", "~", "/proc", *_NUMBERS),
               _parse_data, share=8),
    TextReader("MODEL", ("net.py:Net", "zoo:digits-cnn", "a.onnx", "package.module:make", "hf:folder", "m.h5",
                         "a/b.pt"),
               (".py", ":", ".", "/", "..", "zoo", "hf", "timm", ".onnx", ".pb", "~", "%", " ", "?", *_NUMBERS),
               _kind_of),
    TextReader("model URL", ("grpc://127.0.0.1:8500/v1/models/m:predict", "http://h:8501/v1/models/m/versions/3",
                             "grpcs://[::1]:8001/v2/models/m", "host:8500,8501", "https://h/v2/models/m/versions/1"),
               ("http://", "grpc://", ":", "/", "v1", "v2", "models", "@", "[", "]", "?", "#", "%00", *_NUMBERS),
               _parse_url),
    TextReader("texts of a program", _EXPRESSIONS, ("expr ", "guard ", "structure ", "Pow", "(", ")", ",", "**", "<<",
               "Symbol", "'s0'", "L", "['x']", ".size()", "not ", "~", "lambda", ":", "{", "null", *_NUMBERS),
               _check_program_text, "torch", 10, (ValueError,)),
    TextReader("code of TorchScript", (_SCRIPT,), TORCHSCRIPT_WORDS, _check_script, "torch", 10, (ValueError,)),
)  # fmt: skip
