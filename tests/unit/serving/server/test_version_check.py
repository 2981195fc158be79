"""Golden samples and warm-up requests that a version answers before it is switched to."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.artifact import GOLDEN
from transload.models.errors import BadRequest, SessionLost
from transload.serving.server.repository.batching_parameters import BatchingParameters
from transload.serving.server.repository.model_config import ModelConfig
from transload.serving.server.repository.model_repository import Repository
from transload.serving.server.repository.served_version import OpenedSession
from transload.serving.server.repository.version_check import WARM_UP, check_version
from transload.serving.server.repository.version_keeper import VersionSource
from transload.serving.wire.tensor_proto import encode
from transload.serving.wire.tfrecord import write_records
from transload.serving.wire.tfserving_messages import stock


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


def test_warm_up_requests_of_tf_serving_are_asked(one_session: Any, tmp_path: Path) -> None:
    log = stock().PredictionLog()
    encode(np.ones((3, 2), np.float32), log.predict_log.request.inputs["x"])
    file = tmp_path / WARM_UP
    file.parent.mkdir()
    content = write_records([log.SerializeToString(), stock().PredictionLog().SerializeToString()] * 2)
    file.write_bytes(content)
    session = one_session()
    check_version(session, tmp_path)
    assert session.runs == 2
    for broken in (content[:-3], content[:20] + b"?" + content[21:], write_records([b"\xff"])):
        file.write_bytes(broken)
        with pytest.raises(BadRequest, match="holds no warm-up requests"):
            check_version(session, tmp_path)


def test_without_either_one_call_of_zeros_warms_up(one_session: Any, tmp_path: Path) -> None:
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
