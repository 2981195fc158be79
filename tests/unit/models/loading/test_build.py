"""A source folder becomes the module that it records, or one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from transload.models.errors import BadRequest
from transload.models.loading.build import build_model, call_model, name_outputs
from transload.models.loading.code_refs import zoo_recipe
from transload.models.loading.module_checks import check_steady
from transload.models.loading.weight_files import write_weights
from transload.models.signature import Signature, TensorSpec
from transload.models.sources import WEIGHTS, CodeRef, Source, write_source

CODE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)
        self.drop = nn.Dropout(0.5)
    def forward(self, x):
        return self.drop(self.lin(x))

def make():
    return Net()

class Tied(Net):
    def __init__(self):
        super().__init__()
        self.again = self.lin

class Random(Net):
    def forward(self, x):
        return nn.functional.dropout(self.lin(x))

INSTANCE = Net()
NUMBER = 3
def number(): return 3
def broken(): return 1 / 0
"""
SIGNATURE = Signature((TensorSpec("x", "float32", ("batch", 3)),), (TensorSpec("y", "float32", ("batch", 2)),))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "source").mkdir()
    return tmp_path / "source"


def record(folder: Path, name: str) -> Path:
    write_source(folder, Source(CodeRef(f"mine.py:{name}", str(folder.parent)), SIGNATURE, "0"))
    return folder


@pytest.mark.parametrize("name", ["Net", "make", "INSTANCE"])
def test_a_class_a_function_and_an_instance_give_a_module_ready_to_run(name: str, source: Path) -> None:
    model = build_model(record(source, name))
    assert not any(part.training for part in model.modules())
    assert not any(weight.requires_grad for weight in model.parameters())
    assert check_steady(model, SIGNATURE).answers["y"].shape == (2, 2)


def test_without_weights_a_model_is_the_same_each_time_and_disturbs_no_generator(source: Path) -> None:
    state = torch.get_rng_state()
    first, second = (build_model(record(source, "make")).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(torch.get_rng_state(), state)


def test_weights_are_loaded_whole(source: Path) -> None:
    wanted = {"lin.weight": torch.arange(6.0).reshape(2, 3), "lin.bias": torch.tensor([7.0, 8.0])}
    write_weights(source / WEIGHTS, wanted)
    loaded = build_model(record(source, "make")).state_dict()
    assert {name: value.tolist() for name, value in loaded.items()} == {n: v.tolist() for n, v in wanted.items()}


def test_tied_and_transposed_weights_survive(source: Path) -> None:
    weight = torch.arange(6.0).reshape(3, 2).T  # not contiguous
    state = {"lin.weight": weight, "again.weight": weight, "lin.bias": torch.zeros(2), "again.bias": torch.zeros(2)}
    write_weights(source / WEIGHTS, state)
    model = build_model(record(source, "Tied"))
    assert torch.equal(model.state_dict()["again.weight"], weight)
    assert model.get_submodule("again") is model.get_submodule("lin")


ONE, TWO = torch.zeros(2, 3), torch.zeros(2)
MISFITS = {
    "lin.bias is missing": {"lin.weight": ONE},
    "the model has no extra": {"lin.weight": ONE, "lin.bias": TWO, "extra": TWO + 1},
    "lin.weight is [3, 2] where the model has [2, 3]": {"lin.weight": ONE.T.contiguous(), "lin.bias": TWO},
    "lin.weight is torch.float64 where the model has torch.float32, which would lose digits": {
        "lin.weight": ONE.double(),
        "lin.bias": TWO,
    },
}


@pytest.mark.parametrize("words", MISFITS)
def test_weights_that_do_not_fit_are_refused_by_the_first_name(words: str, source: Path) -> None:
    save_file(MISFITS[words], source / WEIGHTS)
    with pytest.raises(BadRequest) as caught:
        build_model(record(source, "make"))
    assert caught.value.what == f"the weights do not fit the model: {words}"


def test_half_precision_weights_are_taken_where_no_digit_is_lost(source: Path) -> None:
    save_file({"lin.weight": ONE.half() + 0.5, "lin.bias": TWO.bfloat16()}, source / WEIGHTS)
    assert build_model(record(source, "make")).state_dict()["lin.weight"].dtype == torch.float32


def test_a_cut_off_weights_file_is_refused(source: Path) -> None:
    write_weights(source / WEIGHTS, {"lin.weight": ONE, "lin.bias": TWO})
    (source / WEIGHTS).write_bytes((source / WEIGHTS).read_bytes()[:-5])
    with pytest.raises(BadRequest, match="is not a whole safetensors file"):
        build_model(record(source, "make"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NUMBER", "gives a int, not a torch.nn.Module"),
        ("number", "gives a int, not a torch.nn.Module"),
        ("broken", r"making the model mine.py:broken raised ZeroDivisionError at .*mine.py:\d+: division by zero"),
    ],
)
def test_what_gives_no_module_is_refused(name: str, words: str, source: Path) -> None:
    with pytest.raises(BadRequest, match=words):
        build_model(record(source, name))


def test_a_model_that_stays_random_in_eval_mode_is_found_out(source: Path) -> None:
    torch.manual_seed(0)
    with pytest.raises(BadRequest, match="the model is random: its output y differs between two calls"):
        check_steady(build_model(record(source, "Random")), SIGNATURE)


def test_a_recipe_of_the_zoo_is_built_from_its_folder(source: Path) -> None:
    signature = zoo_recipe("breast-cancer-mlp").signature
    write_source(source, Source(CodeRef("zoo:breast-cancer-mlp"), signature, "0"))
    assert check_steady(build_model(source), signature).answers["logits"].shape == (2, 2)


def test_outputs_get_their_names_from_the_signature() -> None:
    one, two = torch.tensor([1.0]), torch.tensor([2.0])
    assert name_outputs(one, ["y"]) == {"y": one}
    assert name_outputs((one, two), ["b", "a"]) == {"b": one, "a": two}
    assert list(name_outputs({"a": one, "b": two}, ["b", "a"])) == ["b", "a"]
    with pytest.raises(BadRequest, match="the model returned 2 outputs where its signature names y"):
        name_outputs([one, two], ["y"])
    with pytest.raises(BadRequest, match="the model returned 1 outputs"):
        name_outputs({"z": one}, ["y"])


def test_inputs_go_in_the_order_of_the_signature() -> None:
    class Minus(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a - b

    specs = (TensorSpec("left", "float32", ("batch",)), TensorSpec("right", "float32", ("batch",)))
    signature = Signature(specs, (TensorSpec("y", "float32", ("batch",)),))
    assert call_model(Minus(), signature, [torch.tensor([3.0]), torch.tensor([1.0])])["y"].tolist() == [2.0]
