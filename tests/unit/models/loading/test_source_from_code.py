"""Weights that were trained elsewhere: taken whole, or refused in one sentence, and never executed."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.loading.build import build_model
from transload.models.loading.code_refs import zoo_recipe
from transload.models.loading.source_from_code import take_weights
from transload.models.loading.weight_files import load_weights, read_weight_file
from transload.models.sources import WEIGHTS, read_source

NET = "zoo:breast-cancer-mlp"
CODE = """
import torch
from torch import nn

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(5, 4)
    def forward(self, tokens, image):
        seen = self.emb(tokens)
        return {"seen": seen, "half": image[:, :, ::2].mean(1), "total": image.sum()}

class Stateless(nn.Module):
    def forward(self, image):
        return image * 2, image.flatten(1)

class Listed(nn.Module):
    def forward(self, image):
        return image, [object()]

class Named(nn.Module):
    def forward(self, image):
        return {"logits": image, "task": "classify", "version": 3}

class Fails(nn.Module):
    def forward(self, image):
        return image @ image
"""


@pytest.fixture
def state() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    return dict(zoo_recipe("breast-cancer-mlp").net().state_dict())


def job(tmp_path: Path, ref: str = NET, **options: Any) -> Job:
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "out").mkdir()
    return Job({}, tmp_path / "out", {"ref": ref, "root": str(tmp_path), **options})


def saved(value: object) -> Callable[[Path], object]:
    return lambda path: torch.save(value, path)


@pytest.mark.parametrize(
    ("name", "wrap"),
    [
        ("w.safetensors", lambda state: state),
        ("w.pt", lambda state: state),
        ("w.ckpt", lambda state: {"state_dict": {f"model.{k}": v for k, v in state.items()}, "epoch": 3}),
        ("w.pth", lambda state: {f"module.net.{k}": v for k, v in state.items()}),
    ],
)
def test_weights_of_every_kind_arrive_bit_by_bit(
    name: str, wrap: Callable[[dict[str, torch.Tensor]], Any], state: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    path = tmp_path / name
    (save_file if path.suffix == ".safetensors" else torch.save)(wrap(state), path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    facts = take_weights(job(tmp_path, weights=str(path), sha256=digest))
    loaded = load_file(tmp_path / "out" / WEIGHTS)
    assert {k: v.tolist() for k, v in loaded.items()} == {k: v.tolist() for k, v in state.items()}
    assert facts["parameters"] == 4322
    built = build_model(tmp_path / "out").state_dict()
    assert all(torch.equal(built[key], state[key]) for key in state)


def test_a_key_names_the_part_of_a_checkpoint(state: dict[str, torch.Tensor], tmp_path: Path) -> None:
    torch.save({"ema": state, "raw": {}}, tmp_path / "w.pt")
    assert set(read_weight_file(tmp_path / "w.pt", "ema")) == set(state)
    with pytest.raises(BadRequest, match=r"has no part 'emma'\n  fix: name one of ema, raw"):
        read_weight_file(tmp_path / "w.pt", "emma")
    with pytest.raises(BadRequest, match="holds no state dict, but ema, raw"):
        read_weight_file(tmp_path / "w.pt")


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("executed"),))


def test_a_pickle_without_weights_is_refused_and_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": Evil()}, tmp_path / "zip.pt")
    torch.save({"state_dict": Evil()}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Evil()))
    for name in ("zip.pt", "old.pt", "plain.pt"):
        with pytest.raises(BadRequest, match=r"holds no state dict, but state_dict \(an obj|is no checkpoint of torch"):
            read_weight_file(tmp_path / name)
    assert not (tmp_path / "executed").exists()
    torch.load(tmp_path / "zip.pt", weights_only=False)
    assert (tmp_path / "executed").exists()  # the check can fail


def _cut(write: Callable[[Path], object], keep: float) -> Callable[[Path], object]:
    def cut(path: Path) -> None:
        write(path)
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])

    return cut


def _script(path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="torch.jit"):
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)


WEIGHT = {"a": torch.arange(1000.0)}
BAD: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "missing": ("w.pt", lambda _path: None, "no such file"),
    "empty": ("w.pt", lambda path: path.write_bytes(b""), "is empty"),
    "empty safetensors": ("w.safetensors", lambda path: path.write_bytes(b""), "is empty"),
    "cut checkpoint": ("w.pt", _cut(saved(WEIGHT), 0.6), "is not a whole checkpoint"),
    "cut safetensors": ("w.safetensors", _cut(lambda p: save_file(WEIGHT, p), 0.6), "not a whole safetensors file"),
    "checkpoint as safetensors": ("w.safetensors", saved(WEIGHT), "is a checkpoint of torch.save"),
    "safetensors as checkpoint": ("w.pt", lambda p: save_file(WEIGHT, p), "is a .safetensors file by its content"),
    "huge header": ("w.safetensors", lambda p: p.write_bytes(b"\xff" * 64), "not a whole safetensors file"),
    "text": ("w.ckpt", lambda p: p.write_text("hello, world\n"), "is not a whole checkpoint"),
    "an image": (
        "w.pt",
        lambda p: p.write_bytes(b"\x89PNG\r\n" * 9),
        "is not a whole checkpoint",
    ),
    "a list": ("w.pt", saved([torch.zeros(2)]), "holds no state dict, but a list"),
    "torchscript": ("w.pt", _script, "is a TorchScript archive"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_file_that_is_no_whole_weights_becomes_one_sentence(kind: str, tmp_path: Path) -> None:
    name, write, words = BAD[kind]
    write(tmp_path / name)
    with pytest.raises(BadRequest, match=words) as caught:
        read_weight_file(tmp_path / name)
    assert "\n" not in caught.value.what
    assert len(caught.value.what) < 400


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    save_file(WEIGHT, tmp_path / "w.safetensors")
    with pytest.raises(BadRequest, match=r"do not fit the model: 0\.weight, .* are missing; the model has no a"):
        take_weights(job(tmp_path, weights=str(tmp_path / "w.safetensors")))


def test_a_file_that_changed_since_the_plan_was_made_is_refused(state: dict[str, torch.Tensor], tmp_path: Path) -> None:
    save_file(state, tmp_path / "w.safetensors")
    with pytest.raises(BadRequest, match="has changed since this run began"):
        take_weights(job(tmp_path, weights=str(tmp_path / "w.safetensors"), sha256="0" * 64))


INPUTS = [
    {"name": "tokens", "dtype": "int64", "shape": ["batch", "time"]},
    {"name": "image", "dtype": "float32", "shape": ["batch", 3, "width"]},
]


def test_the_outputs_of_a_factory_are_found_by_calling_it(tmp_path: Path) -> None:
    facts = take_weights(job(tmp_path, "mine.py:Two", inputs=INPUTS))
    assert facts["signature"]["outputs"] == [
        {"name": "seen", "dtype": "float32", "shape": ["batch", "time", 4]},
        {"name": "half", "dtype": "float32", "shape": ["batch", "half_1"]},
        {"name": "total", "dtype": "float32", "shape": []},
    ]
    source = read_source(tmp_path / "out")
    assert source.signature.to_json() == facts["signature"]
    assert len(source.code) == 64


def test_a_factory_keeps_the_weights_that_it_was_seen_with(tmp_path: Path) -> None:
    (tmp_path / "wild.py").write_text(
        "import os, torch\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.w = torch.nn.Parameter(torch.tensor([float(os.urandom(4)[0]), float(os.urandom(4)[1])]))\n"
        "    def forward(self, x):\n        return x * self.w\n"
    )
    take_weights(job(tmp_path, "wild.py:Net", inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 2]}]))
    first, second = (build_model(tmp_path / "out").state_dict()["w"].tolist() for _ in range(2))
    assert first == second == load_file(tmp_path / "out" / WEIGHTS)["w"].tolist()


def test_a_model_without_weights_has_no_weights_file(tmp_path: Path) -> None:
    facts = take_weights(job(tmp_path, "mine.py:Stateless", inputs=INPUTS[1:]))
    assert [row["name"] for row in facts["signature"]["outputs"]] == ["output_0", "output_1"]
    assert not (tmp_path / "out" / WEIGHTS).exists()
    made = build_model(tmp_path / "out")(torch.from_numpy(np.full((1, 3, 2), 1.5, np.float32)))
    assert made[0].unique().tolist() == [3.0]


def test_what_is_left_out_of_the_outputs_is_told(tmp_path: Path) -> None:
    facts = take_weights(job(tmp_path, "mine.py:Named", inputs=INPUTS[1:]))
    assert [row["name"] for row in facts["signature"]["outputs"]] == ["logits"]
    assert facts["notes"] == ["left out, as it is no tensor: task='classify', version=3"]


@pytest.mark.parametrize(
    ("name", "inputs", "words"),
    [
        ("Two", None, "nothing says what mine.py:Two takes"),
        ("Listed", INPUTS[1:], "the model returns object as output_1_0, which holds no tensors"),
        ("Fails", INPUTS[1:], r"calling mine.py:Fails raised RuntimeError at .*mine.py:\d+"),
        ("Stateless", INPUTS, "forward of Stateless takes image, and tokens is none of them"),
    ],
)
def test_a_factory_that_cannot_be_called_is_refused(name: str, inputs: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=words):
        take_weights(job(tmp_path, f"mine.py:{name}", inputs=inputs))


class Versioned(torch.nn.Linear):
    """As torchvision's MNASNet: it will not be loaded by a layer of no version."""

    _version = 2

    def _load_from_state_dict(self, state: Any, prefix: str, metadata: Any, *rest: Any) -> None:
        if metadata.get("version") != 2:
            raise ValueError("version should be set")
        super()._load_from_state_dict(state, prefix, metadata, *rest)


def test_layers_are_loaded_as_of_their_own_version() -> None:
    model = Versioned(2, 2)
    load_weights(model, {name: torch.ones_like(value) for name, value in model.state_dict().items()})
    assert torch.equal(model.weight, torch.ones(2, 2))
