"""Which change of a runtime restores agreement."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from transload.models.errors import OpenFailed
from transload.pipeline.locate import runtime_changes
from transload.pipeline.locate.locate_records import Cure
from transload.pipeline.locate.runtime_changes import find_cure

BROKEN: Any = SimpleNamespace(result=SimpleNamespace(verdict="fail"), agreement_db=None)
Settings = Mapping[str, Any]


class Session:
    """A session that answers by the settings it was opened with."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Search:
    """A search whose diverging call is answered rightly with some settings."""

    def __init__(self, runtime: str, right: list[Settings]) -> None:
        self.check = SimpleNamespace(runtime=runtime)
        self._right = right

    def ask_again(self, session: Session, diverging: Any) -> Any:
        if session.settings not in self._right:
            return diverging
        return SimpleNamespace(result=SimpleNamespace(verdict="pass"), agreement_db=134.0)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """Return the list to which every opened session is added."""
    opened: list[Session] = []

    def open_session(runtime: str, folder: Path, *, threads: int, settings: Settings) -> Session:
        opened.append(Session(settings))
        return opened[-1]

    monkeypatch.setattr(runtime_changes, "open_session", open_session)
    return opened


def cure_of(runtime: str, right: list[Settings]) -> Cure | None:
    search: Any = Search(runtime, right)
    return find_cure(search, BROKEN, Path("artifact"), threads=1)


OFF, BASIC, EXTENDED = ({"level": f"ORT_{level}"} for level in ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED"))


@pytest.mark.parametrize(
    ("right", "level"),
    [([OFF], "ORT_DISABLE_ALL"), ([OFF, BASIC], "ORT_ENABLE_BASIC"), ([OFF, BASIC, EXTENDED], "ORT_ENABLE_EXTENDED"),
     ([OFF, EXTENDED], "ORT_DISABLE_ALL")],
)  # fmt: skip
def test_the_highest_level_of_optimisation_that_agrees_is_named(
    sessions: list[Session], right: list[Settings], level: str
) -> None:
    cure = cure_of("onnxruntime", right)
    assert cure is not None
    assert cure.agrees
    assert cure.setting == f"SessionOptions.graph_optimization_level = GraphOptimizationLevel.{level}"
    assert cure.agreement_db == 134
    assert all(session.closed for session in sessions)


def test_the_delegate_is_named_for_tflite(sessions: list[Session]) -> None:
    cure = cure_of("tflite", [{"kernels": "BUILTIN_WITHOUT_DEFAULT_DELEGATES"}])
    assert cure is not None
    assert (cure.change, cure.tried) == ("without XNNPACK", ("in a new session", "without XNNPACK"))


def test_folded_operators_are_named_for_torchscript(sessions: list[Session]) -> None:
    cure = cure_of("torchscript", [{"optimise": False}])
    assert cure is not None
    assert (cure.agrees, cure.change) == (True, "without folded operators")


def test_no_setting_is_named_for_a_copy_that_agrees_in_a_new_session(sessions: list[Session]) -> None:
    cure = cure_of("onnxruntime", [{}, OFF, BASIC, EXTENDED])
    assert cure == Cure(agrees=True, change="in a new session", agreement_db=134, tried=("in a new session",))


def test_smaller_changes_are_left_out_where_the_largest_does_not_agree(sessions: list[Session]) -> None:
    cure = cure_of("onnxruntime", [])
    assert cure == Cure(agrees=False, tried=("in a new session", "without graph optimisation"))
    assert len(sessions) == 2


def test_a_change_with_which_the_copy_cannot_be_opened_is_no_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Session:
        raise OpenFailed("no kernel", fix="another", runtime="tflite")

    monkeypatch.setattr(runtime_changes, "open_session", refuse)
    cure = cure_of("tflite", [])
    assert cure == Cure(agrees=False, tried=("in a new session", "without XNNPACK"))


def test_a_runtime_without_such_settings_has_no_cure(sessions: list[Session]) -> None:
    assert cure_of("tensorflow", [{}]) is None
    assert sessions == []
