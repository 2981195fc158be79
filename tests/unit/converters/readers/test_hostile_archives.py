"""PyTorch archives that run code or write files: the checks alone refuse them, and pass what torch writes."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from transload.converters.readers.allowed_torch_operators import ALLOWED_ATEN
from transload.converters.readers.pt2.pt2_file import check_pt2, load_pt2
from transload.converters.readers.pt2.pt2_reader import import_pt2
from transload.converters.readers.pt2.pt2_texts import check_expression, check_guard, check_structure
from transload.converters.readers.torchscript.torchscript_file import check_torchscript, load_torchscript
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.store import digest_of

SAMPLES = Path(__file__).parents[3] / "hostile" / "archive_samples.py"


def load_samples() -> ModuleType:
    spec = importlib.util.spec_from_file_location("archive_samples", SAMPLES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["archive_samples"] = module  # torch reads the code of its modules
    spec.loader.exec_module(module)
    return module


samples = load_samples()
ENDLESS = ("endless.pt", "endless-later.pt")  # they only compute: the limit of time ends them
NAMES = [*(f"{name}.pt2" for name in samples.PROGRAMS), *(f"{name}.pt" for name in samples.SCRIPTS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archives")
    samples.write_samples(folder)
    return folder


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, for TorchScript and quantization
        yield


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ENDLESS])
def test_a_hostile_archive_is_refused_and_runs_nothing(name: str, folder: Path) -> None:
    path = folder / name
    check = check_pt2 if path.suffix == ".pt2" else check_torchscript
    with pytest.raises(BadRequest) as caught:
        check(path)
    assert caught.value.what.startswith(str(path))
    assert "\n" not in caught.value.what
    assert not samples.marker_of(path).exists()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # the marker
@pytest.mark.parametrize("name", ["guard.pt2", "from-file.pt2", "axis.pt2"])
def test_without_the_check_a_program_runs(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever removes the check sees the marker; so the samples are what they say."""
    monkeypatch.chdir(tmp_path)
    path = folder / name
    try:
        torch.export.load(path).module()(torch.randn(3, 4))
    except AttributeError:
        assert name == "axis.pt2"
    assert samples.marker_of(path).exists()
    samples.marker_of(path).unlink()


@pytest.mark.parametrize("name", ["save-in-parentheses", "save-continued", "save-by-getattr", "save-in-upper-case",
                                  "save-in-fork", "from-file", "other-library"])  # fmt: skip
def test_the_compiled_graphs_are_a_second_check(name: str, folder: Path) -> None:
    path = folder / f"{name}.pt"
    with pytest.raises(BadRequest, match=r"calls aten::(save|from_file)|is no TorchScript"):
        load_torchscript(path)
    assert not samples.marker_of(path).exists()


def test_only_the_allowed_operators_only_compute() -> None:
    assert not {"save", "from_file", "set_", "record_stream", "manual_seed"} & ALLOWED_ATEN
    registered = [row for row in torch._C._jit_get_all_schemas() if row.name.startswith("aten::")]
    for row in registered:
        words = {f"{argument.name} {argument.type}" for argument in row.arguments}
        if any(word in text for text in words for word in ("filename", "Storage", "Stream")):
            assert row.name.removeprefix("aten::") not in ALLOWED_ATEN
    assert {row.name.removeprefix("aten::") for row in registered} >= ALLOWED_ATEN


class Lstm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.LSTM(4, 5, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        return self.inner(x)


class Condition(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


class Sizes(torch.nn.Module):
    def forward(self, x: torch.Tensor, scale: float, *, mode: str = "mean") -> dict[str, Any]:
        half = x.shape[2] // 2 + 1
        rows = torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")[:, :, :half]
        return {"rows": rows.reshape(rows.shape[0], -1), "kept": [x * scale, (x.mean() if mode == "mean" else x,)]}


class Counted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        count: Any = (x > 0).sum().item()
        torch._check(count >= 0)
        return x.nonzero(), torch.zeros(count)


class Parts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleDict({"a-b": torch.nn.Linear(4, 4), "0": torch.nn.BatchNorm1d(4)})

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 a name that many models have
        if input.shape[0] % 2 == 0:
            return self.parts["0"](self.parts["a-b"](input))
        return input


class Mapped(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: row.sum() * 2)(x)


AXIS = torch.export.Dim.DYNAMIC
GOOD: dict[str, Callable[[], torch.export.ExportedProgram]] = {
    "LSTM": lambda: torch.export.export(Lstm(), (torch.ones(3, 7, 4),), dynamic_shapes=({0: AXIS},)),
    "condition": lambda: torch.export.export(Condition(), (torch.ones(3, 4),), dynamic_shapes=({0: AXIS},)),
    "sizes": lambda: torch.export.export(
        Sizes(), (torch.ones(2, 3, 8, 8), 2.0), {"mode": "mean"},
        dynamic_shapes={"x": {0: AXIS, 2: AXIS, 3: AXIS}, "scale": None, "mode": None},
    ),
    "counted": lambda: torch.export.export(Counted(), (torch.ones(3, 4),), dynamic_shapes=({0: AXIS},)),
    "parts": lambda: torch.export.export(Parts().eval(), (torch.ones(4, 4),), dynamic_shapes=({0: AXIS},)),
    "vmap": lambda: torch.export.export(Mapped(), (torch.ones(3, 4),), dynamic_shapes=({0: AXIS},)),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_a_program_that_torch_exports_passes(name: str, tmp_path: Path) -> None:
    torch.export.save(GOOD[name](), tmp_path / "m.pt2")
    check_pt2(tmp_path / "m.pt2")
    load_pt2(tmp_path / "m.pt2").module()


def add_one(x: torch.Tensor, times: int = 2, note: str = 'it\'s "1"\\n') -> torch.Tensor:
    for _ in range(times):
        x = x + len(note)
    return x


class Spoken(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleDict({"a-b": torch.nn.Linear(4, 4), "0": torch.nn.GRU(4, 4)})
        self.limit = float("inf")

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        future = torch.jit.fork(add_one, x)
        if mask is not None:
            x = x.masked_fill(mask, -self.limit)
        elif x.shape[0] > 100:
            raise ValueError(f"too many: {x.shape[0]}")
        total = 0
        while total < 3:
            total += 1
        print("rows", x.shape)
        y, _ = self.layers["0"](self.layers["a-b"](x)[:, None, ...])
        return {"y": y + total, "z": torch.jit.wait(future)}


SCRIPTED: dict[str, Callable[[], torch.nn.Module]] = {
    "language": Spoken,
    "transformer": lambda: torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16), 1),
    "convolution": lambda: torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding="same"), torch.nn.BatchNorm2d(4), torch.nn.Upsample(scale_factor=2)),
    "quantized": lambda: torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(4, 4))),
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTED)
def test_an_archive_that_torch_writes_passes(name: str, tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(SCRIPTED[name]().eval()), tmp_path / "m.pt")
    check_torchscript(tmp_path / "m.pt")
    load_torchscript(tmp_path / "m.pt")


def test_a_traced_archive_passes(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.trace(Lstm().eval(), torch.ones(3, 2, 4)), tmp_path / "m.pt")
    check_torchscript(tmp_path / "m.pt")
    load_torchscript(tmp_path / "m.pt")


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s77', positive=True, integer=True)",
        "Add(Integer(1), Mul(Integer(2), FloorDiv(Symbol('s0', integer=True), Integer(2))))",
        "Pow(Symbol('u0', integer=True), Rational(1, 2))",
        "GreaterThan(Symbol('u0'), Integer(0))",
        "Float('0.5', precision=53)",
        "2*s0 + 1 - s1//2",
        "oo",
    ],
)
def test_sizes_are_arithmetic(text: str) -> None:
    check_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "open('x', 'w')",
        "().__class__",
        "s0.__class__",
        "Symbol(open('x'))",
        "Symbol('s0', integer=open('x'))",
        "Symbol('s0); open(1')",
        "[s0 for s0 in (1,)]",
        "(lambda: 1)()",
        "Integer('9')",
        "sympify('1')",
        "9**9**9",
        "Pow(9, Pow(9, 9))",
        "((((9**60)**60)**60)**60)",
        "9" * 50,
        "1 if s0 else 2",
        "s0 # 1",
        "s0\\\n+1; s0",
        "",
        "1" * 200_000,
    ],
)
def test_what_is_more_than_arithmetic_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"^\w"):
        check_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "L['x'].size()[0] % 2 == 0",
        "L['args'][0].size()[1] // 2 >= max(1, L['kw']['y-z'].size()[0])",
        "not (L['x'].storage_offset() == 0 and L['n'] != None)",
        "math.floor(L['x'].stride()[0] / 2) < inf",
        "torch.sym_max(L['x'].field.size()[0], 2) == 2",
    ],
)
def test_guards_are_conditions_on_sizes(text: str) -> None:
    check_guard(text)


@pytest.mark.parametrize(
    "text",
    [
        "open('x', 'w')",
        "L['x'].size().__class__",
        "L.__class__",
        "torch.load('x')",
        "torch.os.system('x')",
        "math.factorial(9)",
        "L['x'].tofile('x')",
        "L['\\x27']",
        'L["a\'b"] == 1',
        "L['x'], 'y') or (1",
        "(L['x'] := 1)",
        "[0 for _ in L]",
        "L['x'] == 1\n1",
        "f'{L}'",
        "L['x'].size(dim=0)",
    ],
)
def test_what_is_more_than_a_condition_is_no_guard(text: str) -> None:
    with pytest.raises(ValueError, match=r"^\w"):
        check_guard(text)


@pytest.mark.parametrize(
    "text",
    ["1", "[1, 2]", "[2, {}]", '[1, {"type": "enum.Enum", "context": null, "children_spec": []}]',
     '[1, {"type": null, "context": "x", "children_spec": []}]', "[" * 100_000,
     '[1, {"type": "builtins.dict", "context": "[\\"a\'b\\"]", "children_spec": []}]'],
)  # fmt: skip
def test_what_is_no_plain_structure_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^\w"):
        check_structure(text)


def test_trust_lets_operators_pass_and_no_python(folder: Path) -> None:
    check_pt2(folder / "from-file.pt2", trust=True)
    check_torchscript(folder / "save-in-parentheses.pt", trust=True)
    for name in ("guard.pt2", "two-directories.pt2", "tree-module.pt2"):
        with pytest.raises(BadRequest):
            check_pt2(folder / name, trust=True)


def test_intake_asks_the_check(folder: Path, tmp_path: Path) -> None:
    path = folder / "guard.pt2"
    with pytest.raises(BadRequest, match="as a guard, and it calls something"):
        import_pt2(Job({}, tmp_path, {"path": str(path), "sha256": digest_of(path), "inputs": []}))
    assert not samples.marker_of(path).exists()
