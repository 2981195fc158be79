"""The ledger: names are swapped and restored, a missing one raises, and patches.md says what the records say."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from transload.converters.patches.ledger import (
    Kind,
    MissingName,
    Patch,
    all_patches,
    always,
    bound,
    document,
    operator_named,
    swap_for_good,
    swapped,
    swaps,
)

ROOT = Path(__file__).parents[4]
WHY = {"why": "it is wrong", "upstream": "none", "until": "it is right"}


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("a_library")
    module.half = lambda x: x / 2  # type: ignore[attr-defined]
    module.Base = type("Base", (), {"size": 1})  # type: ignore[attr-defined]
    module.Derived = type("Derived", (module.Base,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a_library", module)
    return module


def test_names_are_swapped_for_a_while_and_restored(library: ModuleType) -> None:
    own = library.half
    group = [
        *swaps("a_library", {"half": lambda own: lambda x: own(x) + 1}, **WHY),
        *swaps("a_library.Derived", {"size": always(2)}, **WHY),
    ]
    with swapped(group):
        assert library.half(4) == 3
        assert (library.Derived.size, library.Base.size) == (2, 1)
    assert library.half is own
    assert library.Derived.size == 1
    assert "size" not in vars(library.Derived)


def test_names_are_restored_after_an_error(library: ModuleType) -> None:
    own = library.half
    with pytest.raises(ZeroDivisionError), swapped(swaps("a_library", {"half": always(None)}, **WHY)):
        raise ZeroDivisionError
    assert library.half is own


@pytest.mark.parametrize("owner", ["a_library", "a_library.Base"])
def test_a_name_that_its_owner_lacks_raises_before_any_is_swapped(library: ModuleType, owner: str) -> None:
    own = library.half
    group = [*swaps("a_library", {"half": always(None)}, **WHY), *swaps(owner, {"third": always(None)}, **WHY)]
    message = f"{owner} has no third, which transload swaps; it was seen in torch 2.13.0"
    with pytest.raises(MissingName) as raised, swapped(group):
        pytest.fail("it was swapped")
    assert str(raised.value) == message
    with pytest.raises(MissingName):
        swap_for_good(group)
    assert library.half is own


def test_an_owner_that_is_not_there_raises(library: ModuleType) -> None:
    with pytest.raises(AttributeError), swapped(swaps("a_library.Other", {"half": always(None)}, **WHY)):
        pytest.fail("it was swapped")
    with pytest.raises(ModuleNotFoundError), swapped(swaps("no_library", {"half": always(None)}, **WHY)):
        pytest.fail("it was swapped")


def test_a_value_of_the_run_takes_the_place_of_a_record_s(library: ModuleType) -> None:
    (patch,) = swaps("a_library", {"half": always(1)}, **WHY)
    with swapped([bound(patch, 3)]):
        assert library.half == 3


def test_functions_of_builtins_are_swapped_inside_of_modules_alone() -> None:
    user, own = ModuleType("user"), ModuleType("own")
    own.int = 5  # type: ignore[attr-defined]
    with swapped(swaps("builtins", {"int": always(7)}, **WHY), inside=[user, own]):
        assert vars(user)["int"] == 7
        assert vars(own)["int"] == 5
        assert int("3") == 3
    assert "int" not in vars(user)
    with swapped(swaps("builtins", {"int": always(7)}, **WHY), inside=[]):
        assert int("3") == 3


def test_a_permanent_swap_stays(library: ModuleType) -> None:
    swap_for_good([Patch(Kind.PERMANENT, "a_library", "half", always(1), "why", "none", "never", "1.0")])
    assert library.half == 1


def test_operators_are_found_by_name() -> None:
    import math

    import torch

    assert operator_named("aten.mode.default") is torch.ops.aten.mode.default
    assert operator_named("math.floor") is math.floor
    with pytest.raises(MissingName, match=r"^torch has no operator aten\.mood\.default, which transload translates$"):
        operator_named("aten.mood.default")
    with pytest.raises(MissingName):
        operator_named("math.flour")


def test_a_record_must_say_why() -> None:
    with pytest.raises(ValueError, match=r"must say its why, until: swap:a\.b"):
        Patch(Kind.SWAP, "a", "b", always(1), "", "none", "", "1.0")


def test_every_record_has_an_id_of_its_own() -> None:
    assert [name for name, count in Counter(patch.id for patch in all_patches()).items() if count > 1] == []


def test_the_document_has_a_row_for_each_reason() -> None:
    text = document(swaps("torch", {"diff": always(1), "fix": always(1)}, **WHY))
    assert "## Names swapped for a while (2)" in text
    assert "| `torch` | `diff`, `fix` | it is wrong | none | it is right | torch 2.13.0 |" in text


def test_docs_patches_md_is_generated_without_a_framework() -> None:
    """In a process of its own, in which every framework is refused."""
    program = (
        "import sys, runpy\n"
        "for name in ('torch', 'tensorflow', 'onnx', 'onnxscript', 'tf2onnx'): sys.modules[name] = None\n"
        "runpy.run_module('transload.converters.patches.ledger', run_name='__main__')\n"
    )
    made = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert made.stdout == (ROOT / "docs" / "evidence" / "patches.md").read_text()
