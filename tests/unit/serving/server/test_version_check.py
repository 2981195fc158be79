"""Golden samples that a version answers before it is switched to."""

from __future__ import annotations

import base64
import json
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.artifact import GOLDEN
from transload.models.errors import BadRequest, SessionLost
from transload.models.signature import Signature, TensorSpec, parse_input
from transload.serving.server.repository.batching_parameters import BatchingParameters
from transload.serving.server.repository.model_config import ModelConfig
from transload.serving.server.repository.model_repository import Repository
from transload.serving.server.repository.served_version import OpenedSession
from transload.serving.server.repository.version_check import check_version
from transload.serving.server.repository.version_keeper import VersionSource
from transload.serving.server.serving_error import ServingError


def row(name: str, value: Any) -> dict[str, Any]:
    content = base64.b64encode(value.tobytes()).decode()
    return {"name": name, "dtype": value.dtype.name, "shape": list(value.shape), "base64": content}


def golden(outputs: Any, least_db: float = 60) -> str:
    inputs = np.array([[1, 2], [3, 4]], np.float32)
    call = {"inputs": [row("x", inputs)], "outputs": [row("y", outputs.astype(np.float32))]}
    return json.dumps({"calls": [call], "tolerance": {"least_db": least_db, "most_unequal": 0}})


RIGHT = np.array([[2, 4], [6, 8]])


def test_a_version_that_answers_as_when_it_was_verified_passes(one_session: Any, tmp_path: Path) -> None:
    session = one_session()
    (tmp_path / GOLDEN).write_text(golden(RIGHT * (1 + 1e-4)))
    check_version(session, tmp_path)
    assert session.runs == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (golden(RIGHT * 1.01), r"y agrees to 40\.1 dB, at least 60\.0 dB are needed"),
        (golden(RIGHT[:1]), r"y has the shape \[2, 2\], expected \[1, 2\]"),
        (golden(RIGHT * [np.nan, 1]), "y is NaN or infinite elsewhere"),
    ],
)
def test_a_version_that_answers_otherwise_is_refused(text: str, words: str, one_session: Any, tmp_path: Path) -> None:
    (tmp_path / GOLDEN).write_text(text)
    with pytest.raises(SessionLost, match=f"its answers are not those of its golden samples: {words}"):
        check_version(one_session(), tmp_path)


@pytest.mark.parametrize("text", ["", "[]", '{"calls": [{}]}', golden(RIGHT).replace('"tolerance"', '"t"')])
def test_a_file_without_golden_samples_is_refused(text: str, one_session: Any, tmp_path: Path) -> None:
    (tmp_path / GOLDEN).write_text(text)
    with pytest.raises(BadRequest, match="holds no golden samples"):
        check_version(one_session(), tmp_path)


def test_without_golden_samples_one_call_of_zeros_warms_up(one_session: Any, tmp_path: Path) -> None:
    session = one_session()
    check_version(session, tmp_path)
    assert session.runs == 1


def test_a_model_whose_rows_change_each_other_is_served_without_batches(
    one_session: Callable[[], Any], tmp_path: Path
) -> None:
    def open_centred(source: VersionSource, lost: threading.Event) -> OpenedSession:
        session = one_session()
        if source.name == "centred":
            session._answer = lambda values: [values[0] - values[0].mean(axis=0)]
        return OpenedSession(session, "numpy", lost)

    for name, answers in (("m", RIGHT), ("centred", np.array([[-1, -1], [1, 1]]))):
        (tmp_path / name).mkdir()
        (tmp_path / name / GOLDEN).write_text(golden(answers))
        (tmp_path / name / "artifact.json").touch()
    warnings: list[str] = []
    repository = Repository(open_centred, warn=warnings.append, batching=BatchingParameters())
    repository.apply([ModelConfig(name, tmp_path / name) for name in ("m", "centred")])
    assert warnings == [
        "version 1 of the model centred is served without batches: it answers a row otherwise beside other rows"
    ]
    feeds = {"x": np.array([[1, 2], [3, 4]], np.float32)}
    assert repository.find("m").predict(feeds)["y"].tolist() == RIGHT.tolist()
    assert repository.find("centred").predict(feeds)["y"].tolist() == [[-1, -1], [1, 1]]
    assert not repository.find("m").is_quick  # it waits for others, in a thread
    assert repository.find("centred").is_quick
    repository.close()


def test_a_version_with_other_answers_is_never_switched_to(
    one_session: Callable[[], Any], tmp_path: Path, until: Callable[..., None]
) -> None:
    def opener(source: VersionSource, lost: threading.Event) -> OpenedSession:
        return OpenedSession(one_session(), "numpy", lost)

    warnings: list[str] = []
    repository = Repository(opener, warn=warnings.append)
    for number, answers in ((1, RIGHT), (2, RIGHT * 2)):
        folder = tmp_path / "m" / str(number)
        folder.mkdir(parents=True)
        (folder / GOLDEN).write_text(golden(answers))  # the first file of a folder is not yet a model
        (folder / "artifact.json").touch()
        if number == 1:
            repository.apply([ModelConfig("m", tmp_path / "m")])
    repository.refresh()
    until(lambda: warnings)
    assert "version 2 of the model m is not served: its answers are not those of its golden samples" in warnings[0]
    assert repository.find("m").number == 1
    repository.close()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"name": "x"', '"name": 7'),
        ('"float32"', f'"{"9" * 5000}"'),
        (": 60", f": 1{'0' * 400}"),
        ('"calls"', '"call"'),
    ],
)
def test_golden_samples_of_another_form_are_refused(old: str, new: str, tmp_path: Path) -> None:
    (tmp_path / GOLDEN).write_text(golden(RIGHT).replace(old, new, 1))
    session: Any = None  # is not asked
    with pytest.raises(BadRequest, match=r"golden\.json holds no golden samples: "):
        check_version(session, tmp_path)


def specs(*texts: str) -> tuple[TensorSpec, ...]:
    return tuple(parse_input(text) for text in texts)


FORMER = Signature(specs("x=float32[batch=1..64,8]"), specs("y=float32[batch,4]"))


@pytest.mark.parametrize(
    ("inputs", "outputs", "words"),
    [
        (["x=float32[n,8]"], ["y=float32[n,4]"], None),  # another name of an axis, and more sizes
        (["x=float32[batch=1..64,width]"], ["y=float32[rows,4]"], None),
        (["x=float32[batch=0..128,8]"], ["y=float32[batch,classes]"], None),  # a file that does not say its outputs
        (["x=float32[batch=1..64,9]"], ["y=float32[batch,4]"], "has the input x=float32"),
        (["x=float32[batch=1..32,8]"], ["y=float32[batch,4]"], "has the input x=float32"),
        (["x=float32[batch=2..64,8]"], ["y=float32[batch,4]"], "has the input x=float32"),
        (["x=float32[batch=0..64:2,8]"], ["y=float32[batch,4]"], "has the input x=float32"),
        (["x=float32[1,8]"], ["y=float32[1,4]"], "has the input x=float32"),
        (["x=int32[batch,8]"], ["y=float32[batch,4]"], "has the input x=int32"),
        (["x=float32[batch,8,1]"], ["y=float32[batch,4]"], "has the input x=float32"),
        (["z=float32[batch,8]"], ["y=float32[batch,4]"], "lacks the input x"),
        (["x=float32[batch,8]", "z=float32[batch]"], ["y=float32[batch,4]"], "has the input z"),
        (["x=float32[batch,8]"], ["y=float32[batch,5]"], "has the output y=float32"),
        (["x=float32[batch,8]"], ["y=float64[batch,4]"], "has the output y=float64"),
        (["x=float32[batch,8]"], ["y=float32[batch,4]", "w=float32[batch]"], "has the output w"),
        (["x=float32[batch,8]"], ["w=float32[batch,4]"], "has the output w"),
    ],
)
def test_a_version_takes_over_where_no_client_would_notice(
    inputs: list[str], outputs: list[str], words: str | None, one_session: Any, tmp_path: Path
) -> None:
    session = one_session()
    session.signature = Signature(specs(*inputs), specs(*outputs))
    if words is None:
        check_version(session, tmp_path, FORMER)
    else:
        with pytest.raises(BadRequest, match=f"its signature is not that of the version that answers: it {words}"):
            check_version(session, tmp_path, FORMER)


@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_version_of_another_signature_is_switched_to_where_that_is_allowed(
    is_allowed: bool, one_session: Any, tmp_path: Path, until: Callable[..., None]
) -> None:
    def open_version(source: VersionSource, lost: threading.Event) -> OpenedSession:
        session = one_session()
        if source.number == 2:
            session.signature = Signature(specs("x=float32[batch,3]"), session.signature.outputs)
        return OpenedSession(session, "numpy", lost)

    def add(number: int) -> None:
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "artifact.json").touch()

    told: list[str] = []
    repository = Repository(open_version, warn=told.append, allow_signature_change=is_allowed)
    add(1)
    repository.apply([ModelConfig("m", tmp_path)])
    add(2)
    repository.refresh()
    until(lambda: repository.find("m").number == 2 or told)
    assert repository.find("m").number == (2 if is_allowed else 1)
    assert [sentence.partition(":")[0] for sentence in told] == (
        [] if is_allowed else ["version 2 of the model m is not served"]
    )
    if not is_allowed:
        repository.refresh()
        assert len(told) == 1  # it is not tried again as long as the old one answers
    shutil.rmtree(tmp_path / "1")

    def answers_as_2() -> bool:
        repository.refresh()
        with suppress(ServingError):
            return repository.find("m").number == 2
        return False

    until(answers_as_2)
    assert len(told) == (0 if is_allowed else 1)
    repository.close()
    anew = Repository(open_version)  # at the start nothing answers that could be taken over from
    anew.apply([ModelConfig("m", tmp_path)])
    assert anew.find("m").number == 2
    anew.close()
