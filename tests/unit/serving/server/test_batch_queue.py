"""Requests gathered into batches: each gets its own rows, and nobody another's error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.errors import BadRequest
from transload.models.signature import Bounds, Signature, TensorSpec
from transload.serving.server.metrics import Metrics
from transload.serving.server.repository.batch_queue import batching_obstacle, largest_batch
from transload.serving.server.repository.batching_parameters import UNLIMITED, BatchingParameters, read_batching_file
from transload.serving.server.repository.served_version import Deadline, OpenedSession, ServedVersion
from transload.serving.server.serving_error import Code, ServingError

from .conftest import ONE, TWO, NumpySession

InThread = Callable[[Callable[[], Any]], threading.Thread]
DEFAULT = BatchingParameters()
LONG = BatchingParameters(max_rows=4, timeout_s=3600)


@dataclass
class Asked:
    """A version whose model waits for `go_on`, and what came of the requests to it."""

    session: NumpySession
    served: ServedVersion
    in_thread: InThread
    until: Callable[..., None]
    go_on: threading.Event = field(default_factory=threading.Event)
    answers: dict[str, Any] = field(default_factory=dict)

    def ask(self, key: str, feeds: Any, deadline: Deadline | None = None) -> None:
        def act() -> None:
            try:
                self.answers[key] = self.served.predict(feeds, deadline or Deadline())
            except Exception as error:  # noqa: BLE001
                self.answers[key] = error

        self.in_thread(act)

    def wait_for_queue(self, requests: int) -> None:
        self.until(lambda: len(self.served._batches._waiting) == requests)  # type: ignore[union-attr]

    def wait_for_runs(self, runs: int) -> None:
        self.until(lambda: self.session.runs == runs)


Ask = Callable[..., Asked]


@pytest.fixture
def asked(in_thread: InThread, until: Callable[..., None]) -> Iterator[Ask]:
    opened: list[Asked] = []

    def open_version(
        parameters: BatchingParameters = DEFAULT, signature: Signature = ONE, *, is_held: bool = True
    ) -> Asked:
        session = NumpySession(signature)
        metrics = Metrics()
        metrics.add_model("m", "numpy")
        version = Asked(session, ServedVersion("m", 1, OpenedSession(session, "numpy"), metrics), in_thread, until)
        assert not version.served.start_batches(parameters)
        session.act = lambda: _wait(version.go_on)
        if not is_held:
            version.go_on.set()
        opened.append(version)
        return version

    yield open_version
    for version in opened:
        version.go_on.set()
        version.served.close()


def _wait(event: threading.Event) -> None:
    event.wait(60)


def x(*rows: float) -> dict[str, Any]:
    return {"x": np.array([[row, row] for row in rows], np.float32).reshape(-1, 2)}


def y(answers: Any) -> list[float]:
    return list(answers["y"][:, 0])


def test_what_waits_while_the_model_runs_is_answered_by_one_call(asked: Ask) -> None:
    version = asked()
    version.ask("first", x(1))
    version.wait_for_runs(1)
    for number in range(5):
        version.ask(f"{number}", x(*range(number)))  # no row, one row, ...
    version.wait_for_queue(5)
    version.go_on.set()
    version.until(lambda: len(version.answers) == 6)
    assert version.session.runs == 2
    assert y(version.answers["first"]) == [2]
    for number in range(5):
        assert y(version.answers[f"{number}"]) == [2 * row for row in range(number)]


def test_a_full_batch_does_not_wait(asked: Ask) -> None:
    version = asked(LONG, is_held=False)
    version.ask("a", x(1, 2))
    version.wait_for_queue(1)
    assert version.session.runs == 0
    version.ask("b", x(3, 4))
    version.until(lambda: len(version.answers) == 2)
    assert (version.session.runs, y(version.answers["a"]), y(version.answers["b"])) == (1, [2, 4], [6, 8])


def test_only_requests_of_equal_sizes_are_joined_in_the_order_of_the_signature(asked: Ask) -> None:
    free = Signature(
        (TensorSpec("x", "float32", ("batch", "n")),),
        (TensorSpec("y", "float32", ("batch", "n")),),
    )
    version = asked(signature=free)
    version.ask("first", {"x": np.ones((1, 1), np.float32)})
    version.wait_for_runs(1)
    for key, size in (("a", 2), ("b", 3), ("c", 2)):
        version.ask(key, {"x": np.full((1, size), size, np.float32)})
    version.wait_for_queue(3)
    version.go_on.set()
    version.until(lambda: len(version.answers) == 4)
    assert version.session.runs == 3
    assert [version.answers[key]["y"].shape for key in "abc"] == [(1, 2), (1, 3), (1, 2)]

    two = asked(LONG, TWO, is_held=False)
    a, b = np.array([1, 2]), np.zeros((2, 2), np.float32)
    two.ask("a", {"a": a, "b": b})
    two.ask("b", {"b": b + 5, "a": a * 10})
    two.until(lambda: len(two.answers) == 2)
    assert (two.session.runs, two.answers["b"]["sum"].tolist()) == (1, [[15, 15], [25, 25]])
    assert two.answers["a"]["kept"].tolist() == [1, 2]


def test_a_batch_is_padded_to_an_allowed_size(asked: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    version = asked(BatchingParameters(max_rows=8, allowed_sizes=(2, 4, 8)), is_held=False)
    shapes: list[Any] = []
    answer = version.session._answer

    def record(values: Any) -> Any:
        shapes.append(values[0].tolist())
        return answer(values)

    monkeypatch.setattr(version.session, "_answer", record)
    assert y(version.served.predict(x(1, 2, 3))) == [2, 4, 6]
    assert y(version.served.predict(x(1, 2))) == [2, 4]
    assert y(version.served.predict(x())) == []
    assert [[row[0] for row in batch] for batch in shapes] == [[1, 2, 3, 1], [1, 2], []]


def test_too_many_rows_and_a_full_queue_are_refused(asked: Ask) -> None:
    version = asked(BatchingParameters(max_rows=2, max_batches=2))
    with pytest.raises(ServingError, match="Task size 3 is larger than maximum input batch size 2") as caught:
        version.served.predict(x(1, 2, 3))
    assert caught.value.code is Code.INVALID_ARGUMENT
    version.ask("first", x(1))
    version.wait_for_runs(1)
    for number in range(2):
        version.ask(f"{number}", x(1, 2))
    version.wait_for_queue(2)
    with pytest.raises(ServingError, match="queue to which this task was submitted is full") as caught:
        version.served.predict(x(1))
    assert caught.value.code is Code.RESOURCE_EXHAUSTED


def test_a_batch_is_full_at_the_preferred_rows_and_a_larger_request_is_answered_alone(asked: Ask) -> None:
    version = asked(BatchingParameters(max_rows=8, preferred_rows=3))
    rows: list[int] = []
    answer = version.session._answer

    def record(values: Any) -> Any:
        rows.append(len(values[0]))
        return answer(values)

    version.session._answer = record  # type: ignore[method-assign]
    version.ask("first", x(0))
    version.wait_for_runs(1)
    for at, key in enumerate(("a", "b", "large", "c"), 1):
        version.ask(key, x(*range(5)) if key == "large" else x(at))
        version.wait_for_queue(at)
    version.go_on.set()
    version.until(lambda: len(version.answers) == 5)
    assert rows == [1, 3, 5]  # a, b and c are full; nothing is joined to the large one
    assert y(version.answers["large"]) == [0, 2, 4, 6, 8]
    assert y(version.answers["c"]) == [8]
    with pytest.raises(ServingError, match="Task size 9 is larger than maximum input batch size 8"):
        version.served.predict(x(*range(9)))


def test_the_preferred_rows_end_the_wait_for_others(asked: Ask) -> None:
    version = asked(BatchingParameters(max_rows=1000, timeout_s=3600, preferred_rows=2), is_held=False)
    version.ask("a", x(1))
    version.wait_for_queue(1)
    version.ask("b", x(2))
    version.until(lambda: len(version.answers) == 2)
    assert version.session.runs == 1


@pytest.mark.parametrize(
    ("parameters", "tuned", "full"),
    [
        (DEFAULT, None, 1000),
        (DEFAULT, 16, 16),
        (DEFAULT, 2000, 1000),
        (BatchingParameters(max_rows=32, sets_size=True), 16, 32),
    ],
)
def test_the_tuned_batch_is_preferred_unless_the_file_sets_a_size(
    parameters: BatchingParameters, tuned: int | None, full: int
) -> None:
    opened = OpenedSession(NumpySession(ONE), "numpy", tuned_batch=tuned)
    served = ServedVersion("m", 1, opened, Metrics())
    assert not served.start_batches(parameters)
    assert served.full_batch == full
    served.close()


def test_nobody_gets_the_error_of_another(asked: Ask) -> None:
    version = asked(LONG)

    def refuse_negative(values: Any) -> list[Any]:
        if (values[0] < 0).any():
            raise IndexError("below zero")
        return [values[0] * np.float32(2)]

    version.session._answer = refuse_negative  # type: ignore[method-assign]
    version.ask("good", x(1))
    version.ask("bad", x(-1))
    version.ask("other", x(3, 4))
    version.until(lambda: len(version.answers) == 3)
    assert isinstance(version.answers["bad"], BadRequest)
    assert (y(version.answers["good"]), y(version.answers["other"])) == ([2], [6, 8])


def test_requests_that_nobody_waits_for_are_not_run(asked: Ask) -> None:
    version = asked()
    version.ask("first", x(1))
    version.wait_for_runs(1)
    version.ask("cancelled", x(2), Deadline(is_waiting=lambda: False))
    version.wait_for_queue(1)
    version.ask("late", x(3), Deadline(end=0.0))
    version.until(lambda: "late" in version.answers)
    assert version.answers["late"].code is Code.DEADLINE_EXCEEDED
    version.wait_for_queue(1)
    version.go_on.set()
    version.until(lambda: len(version.answers) == 3)
    assert version.answers["cancelled"].code is Code.CANCELLED
    assert version.session.runs == 1
    assert y(version.served.predict(x(4))) == [8]  # the queue has forgotten their rows
    assert version.served._batches._rows == 0  # type: ignore[union-attr]


def test_a_queue_that_everybody_has_left_goes_on(asked: Ask) -> None:
    version = asked(BatchingParameters(max_rows=2, timeout_s=0.1), is_held=False)
    with pytest.raises(ServingError, match="before the deadline"):
        version.served.predict(x(1), Deadline(end=time.monotonic() + 0.02))
    time.sleep(0.3)  # beyond the time-out of the batch that nobody waits for
    assert y(version.served.predict(x(2, 3), Deadline(end=time.monotonic() + 60))) == [4, 6]


def test_each_request_starts_once_though_its_batch_is_asked_again(asked: Ask) -> None:
    version = asked(BatchingParameters(max_rows=2, timeout_s=3600))
    starts: list[str] = []

    def refuse_batches(values: Any) -> list[Any]:
        if len(values[0]) > 1:
            raise IndexError("one at a time")
        return [values[0] * np.float32(2)]

    def ask(key: str) -> None:
        version.answers[key] = version.served.predict(x(1), Deadline(), partial(starts.append, key))

    version.session._answer = refuse_batches  # type: ignore[method-assign]
    for key in "ab":
        version.in_thread(partial(ask, key))
    version.until(lambda: len(version.answers) == 2)
    assert sorted(starts) == ["a", "b"]


def test_what_waits_is_answered_when_the_version_is_closed(asked: Ask) -> None:
    version = asked(LONG, is_held=False)
    version.ask("a", x(1))
    version.wait_for_queue(1)
    version.served.close()
    version.until(lambda: version.answers)
    assert y(version.answers["a"]) == [2]
    with pytest.raises(ServingError, match="is started again"):
        version.served.predict(x(1))


def test_an_answer_of_other_rows_than_its_batch_is_refused(asked: Ask) -> None:
    version = asked(is_held=False)
    version.session._answer = lambda values: [values[0][:1]]  # type: ignore[method-assign]
    with pytest.raises(Exception, match="the answer y has 1 rows to a batch of 2"):
        version.served.predict(x(1, 2))


BATCH4 = (("batch", Bounds(1, 4)),)
FOURS = (("batch", Bounds(4, 8, 4)),)


@pytest.mark.parametrize(
    ("inputs", "outputs", "allowed", "rows"),
    [
        (("batch", 2), ("batch",), (), 1000),
        (("n", 2), ("n",), (), 1000),
        ((1, 2), (1, 2), (), "its inputs share no free first axis"),
        (("batch", 2), (2, "batch"), (), "y[2,batch] does not begin with batch, the axis of its samples"),
        (("batch", 2), ("y_0",), (), "y[y_0] does not begin with batch, the axis of its samples"),
        (("batch", 2), (), (), "y[] does not begin with batch, the axis of its samples"),
        (BATCH4, ("batch",), (), 4),
        (FOURS, ("batch",), (), "it takes batch=4..8:4, and batches may have other sizes"),
        (FOURS, ("batch",), (4, 8), 8),
        (BATCH4, ("batch",), (2, 8), "it takes batch=1..4, and batches may have other sizes"),
    ],
)
def test_what_the_signature_allows(inputs: Any, outputs: Any, allowed: tuple[int, ...], rows: int | str) -> None:
    is_bounded = inputs in (BATCH4, FOURS)
    shape, bounds = (("batch", 2), inputs) if is_bounded else (inputs, ())
    signature = Signature((TensorSpec("x", "float32", shape, bounds),), (TensorSpec("y", "float32", outputs),))
    parameters = BatchingParameters(max_rows=max(allowed, default=1000), allowed_sizes=allowed)
    assert (batching_obstacle(signature, parameters) or largest_batch(signature, parameters)) == rows


def test_the_file_is_read_as_tf_serving_documents_it(tmp_path: Path) -> None:
    file = tmp_path / "batching.config"
    file.write_text(
        "max_batch_size { value: 128 }\nbatch_timeout_micros { value: 1500 }\nmax_enqueued_batches { value: 7 }\n"
        "num_batch_threads { value: 8 }\nallowed_batch_sizes : 32\nallowed_batch_sizes : 128\n"
    )
    assert read_batching_file(file) == BatchingParameters(128, 0.0015, 7, (32, 128), sets_size=True)
    file.write_text("")
    assert read_batching_file(file) == BatchingParameters()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "holds no batching parameters"),
        ("max_batch_siz { value: 1 }", 'no field named "max_batch_siz"'),
        ("max_batch_size { value: 0 }", "are 1 or more"),
        ("batch_timeout_micros { value: -1 }", "is 0 or more"),
        ("max_batch_size { value: 8 } allowed_batch_sizes: 4", r"the last is max_batch_size, 8; got \[4\]"),
        ("max_batch_size { value: 8 } allowed_batch_sizes: [8, 8]", "rise"),
        ("pad_variable_length_inputs: true", "which transload does not do"),
    ],
)
def test_a_file_that_is_none_is_refused(text: str | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "batching.config"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BadRequest, match=words):
        read_batching_file(file)


def test_enable_batching_alone_sets_no_limit_of_rows(asked: Ask) -> None:
    """A request of more rows than a batch is answered alone: no file has limited it."""
    version = asked(is_held=False, parameters=UNLIMITED)
    assert version.served.full_batch == 1000
    rows = version.served.predict(x(*range(1500)))["y"]
    assert len(rows) == 1500
