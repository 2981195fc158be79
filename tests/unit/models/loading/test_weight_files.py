"""Weights out of the files that people keep them in: several files, parts of a checkpoint, prefixes, other dtypes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from transload.models.errors import BadRequest
from transload.models.loading.weight_files import (
    load_weight_file,
    load_weights,
    read_weight_file,
    weights_digest,
)
from transload.models.store import digest_of

STATE = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.tensor([0.5, -0.5])}


def model() -> torch.nn.Module:
    return torch.nn.Linear(3, 2)


def under(prefix: str, state: dict[str, torch.Tensor] | None = None) -> dict[str, torch.Tensor]:
    return {f"{prefix}{name}": value for name, value in (state or STATE).items()}


def loaded(path: Path, value: Any, key: str | None = None) -> tuple[dict[str, Any], list[str]]:
    torch.save(value, path)
    made = model()
    notes = load_weight_file(made, path, key)
    return {name: each.tolist() for name, each in made.state_dict().items()}, notes


WANTED = {name: value.tolist() for name, value in STATE.items()}


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({"model_ema": {"state": STATE, "step": 3}}, "model_ema.state"),
        ({"model.ema": {"state": STATE}}, "model.ema.state"),
        ({"state_dict": under("teacher.") | under("student."), "epoch": 3}, "state_dict.teacher"),
        (under("teacher.net.") | under("student.net."), "teacher.net"),
        (under("_orig_mod.module."), None),
    ],
)
def test_a_key_is_a_path_or_what_names_begin_with(value: Any, key: str | None, tmp_path: Path) -> None:
    assert loaded(tmp_path / "w.pt", value, key) == (WANTED, [])


def test_what_a_wrapper_keeps_beside_the_model_is_left_out_and_said(tmp_path: Path) -> None:
    value = {"state_dict": {**under("model."), "loss.weight": torch.ones(2)}}
    state, notes = loaded(tmp_path / "w.ckpt", value)
    assert state == WANTED
    assert notes == ["the weights' names begin with model.; left out: loss.weight"]


def test_that_other_weights_lie_beside_those_that_are_taken_is_said(tmp_path: Path) -> None:
    other = {name: value + 1 for name, value in STATE.items()}
    state, notes = loaded(
        tmp_path / "w.pt", {"state_dict": STATE, "state_dict_ema": other, "best": {"loss": STATE["bias"]}}
    )
    assert state == WANTED
    assert notes == ["of state_dict and state_dict_ema in w.pt the first was taken; --weights-key names another"]


class Sized(torch.nn.Linear):
    """As a LightningModule keeps them after save_hyperparameters()."""

    def __init__(self, width: int) -> None:
        super().__init__(3, width)
        self.hparams = {"width": width, "lr": 0.1}


def test_a_model_of_other_settings_than_its_checkpoint_names_is_told_them(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    torch.save({"state_dict": STATE, "hyper_parameters": {"width": 2, "lr": 0.1, "loader": [1]}}, path)
    with pytest.raises(BadRequest, match=r"weight is \[2, 3\] where .* \[5, 3\]") as caught:
        load_weight_file(Sized(5), path)
    assert caught.value.fix == "make the model as the file says: --set width=2"
    assert load_weight_file(Sized(2), path) == []
    with pytest.raises(BadRequest, match="fix: make the model with the settings that they were trained with, each as"):
        load_weight_file(torch.nn.Linear(3, 5), path)  # no hparams: nobody knows what its factory takes


def test_weights_in_half_precision_are_taken_and_said(tmp_path: Path) -> None:
    state, notes = loaded(tmp_path / "w.pt", {name: value.half() for name, value in STATE.items()})
    assert state == WANTED
    assert notes == ["2 weights are float16 in w.pt, and are taken as the model has them"]


@pytest.mark.parametrize("part", ["model", "net.state"])
def test_the_only_part_that_fits_the_model_is_taken_and_said(part: str, tmp_path: Path) -> None:
    value: dict[str, Any] = {"epoch": 3, "optimizer": {"state": {0: {"exp_avg": STATE["bias"]}}, "param_groups": []}}
    value |= {"other": {"w": STATE["bias"]}, **({"net": {"state": STATE}} if "." in part else {part: STATE})}
    assert loaded(tmp_path / "w.pt", value) == (WANTED, [f"the weights are the part {part} of w.pt"])


class Norm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.parts = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 2, bias=False), "b": torch.nn.Sequential()})
        self.register_buffer("passing", torch.ones(2), persistent=False)
        self.parts["tied"] = self.parts["a"]


@pytest.mark.parametrize("zipped", [True, False])
def test_a_module_that_was_pickled_gives_its_state_dict(zipped: bool, tmp_path: Path) -> None:
    module = Norm()
    for wrapped in (module, torch.nn.DataParallel(module), {"model": module, "epoch": 3}):
        torch.save(wrapped, tmp_path / "w.pt", _use_new_zipfile_serialization=zipped)
        empty = Norm()
        load_weight_file(empty, tmp_path / "w.pt")
        assert [value.tolist() for value in empty.state_dict().values()] == [
            value.tolist() for value in module.state_dict().values()
        ]
    assert list(read_weight_file(tmp_path / "w.pt", "model")) == list(module.state_dict())


def test_a_weight_that_is_not_plain_numbers_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        loaded(tmp_path / "w.pt", {**STATE, "bias": STATE["bias"].to_sparse()})
    assert str(caught.value) == (
        "bias in w.pt is sparse, which is not read\n  fix: save plain tensors: dequantised, dense and whole"
    )


def test_an_index_may_name_checkpoints_and_no_weight_twice(tmp_path: Path) -> None:
    index = write_shards(tmp_path, bias="more.bin")
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    torch.save({"bias": STATE["bias"]}, tmp_path / "more.bin")
    assert {name: value.tolist() for name, value in read_weight_file(index).items()} == WANTED
    torch.save(STATE, tmp_path / "more.bin")
    with pytest.raises(BadRequest, match=r"weight of .* lies in more\.bin and in another file\n  fix: copy the model"):
        read_weight_file(index)


@pytest.mark.parametrize(
    ("value", "key", "words"),
    [
        ({"a": STATE, "b": STATE}, None, r"but a, b\n  fix: name the part: --weights-key a or --weights-key b"),
        ({"net": {"w": STATE["bias"]}, "step": 3}, None, r"but net, step\n  fix: name the part: --weights-key net"),
        ({"ema": STATE}, "emma", r"has no part 'emma'\n  fix: name one of ema"),
        ({"ema": {"state": STATE}}, "ema.stat", "has no part 'stat'\n  fix: name one of state"),
        (under("a.") | under("b."), None, r"once: under a\., b\.\n  fix: choose: --weights-key a or --weights-key b"),
        (STATE | under("ema."), None, r"once: as they are, and under ema\.\n  fix: choose: --weights-key ema, or save"),
        ({"weight": STATE["weight"]}, None, r"do not fit the model: bias is missing\n  fix: name the weights"),
        ({**STATE, "more": torch.ones(1)}, None, "the model has no more"),
        ({**STATE, "bias": torch.ones(5)}, None, r"bias is \[5\] where the model has \[2\]\n  fix: make the model"),
        ({**STATE, "bias": STATE["bias"].double()}, None, "would lose digits"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_with_the_mend(value: Any, key: str | None, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=words):
        loaded(tmp_path / "w.pt", value, key)


def write_shards(folder: Path, **more: Any) -> Path:
    save_file({"weight": STATE["weight"]}, folder / "model-00001-of-00002.safetensors")
    save_file({"bias": STATE["bias"]}, folder / "model-00002-of-00002.safetensors")
    places = {"weight": "model-00001-of-00002.safetensors", "bias": "model-00002-of-00002.safetensors", **more}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    return index


def test_an_index_names_the_files_and_its_digest_is_of_them_all(tmp_path: Path) -> None:
    index = write_shards(tmp_path)
    assert {name: value.tolist() for name, value in read_weight_file(index).items()} == WANTED
    before = weights_digest(index)
    save_file({"bias": STATE["bias"] + 1}, tmp_path / "model-00002-of-00002.safetensors")
    assert weights_digest(index) != before
    single = tmp_path / "model-00001-of-00002.safetensors"
    assert weights_digest(single) == digest_of(single)


@pytest.mark.parametrize("name", ["../w.safetensors", "/etc/w.safetensors", "code.py", ".w.safetensors", ""])
def test_an_index_that_names_a_file_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    index = write_shards(tmp_path, more=name)
    with pytest.raises(BadRequest, match="which is no file of weights beside it"):
        read_weight_file(index)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 3}', "[" * 100_000, "\ufeff"])
def test_an_index_that_is_none_is_one_sentence(text: str, tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(text)
    with pytest.raises(BadRequest, match=r"is no index of weights|is empty"):
        read_weight_file(index)
    (index.parent / "x").mkdir()
    with pytest.raises(BadRequest, match="no such file"):
        read_weight_file(index.parent / "x" / "model.safetensors.index.json")


def test_a_shard_that_is_missing_is_named(tmp_path: Path) -> None:
    index = write_shards(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(BadRequest, match=r"no such file: .*model-00002-of-00002\.safetensors"):
        read_weight_file(index)


class Views(torch.nn.Module):
    """Parameters and buffers whose elements share memory, and one that only has other strides."""

    def __init__(self) -> None:
        super().__init__()
        line = torch.arange(10.0)
        self.scale = torch.nn.Parameter(torch.tensor([[2.0]]).expand(4, 3))
        self.register_buffer("windows", line.as_strided((4, 3), (2, 1)))
        self.register_buffer("turned", torch.arange(6.0).reshape(2, 3).T)
        self.register_buffer("empty", torch.zeros(1, 0).expand(4, 0))


def test_weights_are_loaded_into_views_whose_elements_share_memory(tmp_path: Path) -> None:
    state = {name: torch.randn_like(value) for name, value in Views().state_dict().items()}
    model = Views()
    turned = model.get_buffer("turned").data_ptr()
    load_weights(model, state)
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert model.get_buffer("turned").data_ptr() == turned  # its elements share nothing: no new memory
