"""What every session keeps, in process or behind a socket. Each function is one promise, and runs in the process that
holds the session (session_host.py), so that it sees the very arrays that a caller sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from transload.models.artifact import read_artifact
from transload.models.errors import BadRequest
from transload.models.signature import Array, Signature
from transload.serving.session import Session

SCALE = np.array([0.5, -3.0, 7.0], np.float32)


def signature_of(folder: Path) -> Signature:
    return read_artifact(folder).signature


INTEGERS = 2**40  # the largest that are sent
INT32 = 2**30  # to runtimes that compute in int32; the model doubles them


def feeds_of(batch: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        "values": rng.standard_normal((batch, 2, 3)).astype(np.float32),
        "ids": rng.integers(-INTEGERS, INTEGERS, (batch, 4)),
        "keep": rng.random(batch) < 0.5,
    }


def answers_to(feeds: Mapping[str, Array]) -> dict[str, Array]:
    values, ids, keep = feeds["values"], feeds["ids"], feeds["keep"]
    return {
        "zeta": np.where(keep[:, None, None], values * SCALE, -values),
        "alpha": ids * 2 + 1,
        "count": values.sum((1, 2)),
        "same": values,
        "scale": SCALE,
    }


def same(got: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    assert list(got) == list(wanted)
    for name, value in wanted.items():
        assert got[name].dtype == value.dtype, name
        assert got[name].shape == value.shape, name
        np.testing.assert_allclose(got[name], value, rtol=1e-6, atol=1e-6, err_msg=name)


def answers_are_right_at_batch_1_2_5_and_back(session: Session) -> None:
    for seed, batch in enumerate((1, 2, 5, 1)):
        same(session.run(feeds_of(batch, seed)), answers_to(feeds_of(batch, seed)))


def feeds_in_another_order_change_nothing(session: Session) -> None:
    feeds = feeds_of(2)
    same(session.run(dict(reversed(feeds.items()))), answers_to(feeds))


def answers_survive_the_next_run(session: Session) -> None:
    first = session.run(feeds_of(2, 1))
    session.run(feeds_of(2, 2))
    session.run(feeds_of(5, 3))
    same(first, answers_to(feeds_of(2, 1)))


def writing_to_an_answer_reaches_neither_feeds_nor_weights(session: Session) -> None:
    feeds = feeds_of(2)
    for value in session.run(feeds).values():
        value[...] = 1
    same(feeds, feeds_of(2))
    same(session.run(feeds), answers_to(feeds))


def a_feed_changed_afterwards_changes_no_answer(session: Session) -> None:
    feeds = feeds_of(2)
    answers = session.run(feeds)
    feeds["values"][:] = 99
    same(answers, answers_to(feeds_of(2)))


def feeds_are_not_written_to_and_may_be_read_only(session: Session) -> None:
    feeds = feeds_of(3)
    for value in feeds.values():
        value.flags.writeable = False
    session.run(feeds)
    same(feeds, feeds_of(3))


def feeds_need_not_be_contiguous(session: Session) -> None:
    wide = feeds_of(6, 4)
    strided = {name: value[::-2] for name, value in wide.items()}
    turned = {**strided, "values": np.asfortranarray(strided["values"])}
    for feeds in (strided, turned):
        same(session.run(feeds), answers_to(feeds))


def values_that_are_not_finite_come_through(session: Session) -> None:
    feeds = {**feeds_of(1), "keep": np.array([True])}
    feeds["values"][0, 0] = [np.nan, np.inf, -np.inf]
    got = session.run(feeds)
    np.testing.assert_array_equal(got["zeta"][0, 0], np.array([np.nan, -np.inf, -np.inf], np.float32))
    np.testing.assert_array_equal(got["same"], feeds["values"])


def an_empty_batch_is_answered_empty_or_refused_in_one_sentence(session: Session) -> None:
    try:
        same(session.run(feeds_of(0)), answers_to(feeds_of(0)))
    except BadRequest as error:
        assert str(error) == (  # noqa: PT017  (runs outside of pytest)
            "input values=float32[batch,2,3] is empty, and JSON has no shape for it\n  fix: send one sample or more"
        )
    same(session.run(feeds_of(2)), answers_to(feeds_of(2)))


REFUSED: list[tuple[Callable[[], dict[str, Array]], str]] = [
    (
        lambda: {name: value for name, value in feeds_of(1).items() if name != "ids"},
        "the model takes the inputs values, ids, keep, got keep, values\n"
        "  fix: give each input of the model once, by its name",
    ),
    (
        lambda: {**feeds_of(1), "more": np.zeros(1)},
        "the model takes the inputs values, ids, keep, got ids, keep, more, values\n"
        "  fix: give each input of the model once, by its name",
    ),
    (
        lambda: {**feeds_of(1), "values": np.zeros((1, 2, 3))},
        "input values=float32[batch,2,3] got float64[1,2,3]\n  fix: send values as float32",
    ),
    (
        lambda: {**feeds_of(1), "values": np.zeros((2, 3), np.float32)},
        "input values=float32[batch,2,3] got the shape [2,3]\n  fix: send values in the shape [batch,2,3]",
    ),
    (
        lambda: {**feeds_of(1), "values": np.zeros((1, 2, 4), np.float32)},
        "input values=float32[batch,2,3] got the shape [1,2,4]\n  fix: send values in the shape [batch,2,3]",
    ),
    (
        lambda: {**feeds_of(2), "keep": np.ones(3, np.bool_)},
        "input keep=bool[batch] has batch=3 where another input has 2\n"
        "  fix: give the axis batch one size in every input",
    ),
]


def what_does_not_fit_is_refused_in_the_same_words_and_nothing_is_lost(session: Session) -> None:
    for make, words in REFUSED:
        try:
            session.run(make())
        except BadRequest as error:
            assert str(error) == words  # noqa: PT017  (runs outside of pytest)
        else:
            raise AssertionError(f"not refused: {words}")
        same(session.run(feeds_of(2)), answers_to(feeds_of(2)))


def bytes_in_another_order_are_refused(session: Session) -> None:
    session.run(feeds_of(1))
    try:
        session.run({**feeds_of(1), "values": feeds_of(1)["values"].astype(">f4")})
    except BadRequest as error:
        assert str(error) == (  # noqa: PT017  (runs outside of pytest)
            "input values=float32[batch,2,3] has its bytes in another order than this machine\n"
            "  fix: send values.astype('float32')"
        )
    else:
        raise AssertionError("not refused")


def it_says_where_it_runs(session: Session) -> None:
    assert session.device == "cpu"


PROMISES: dict[str, Callable[[Session], None]] = {
    promise.__name__: promise
    for promise in (
        answers_are_right_at_batch_1_2_5_and_back,
        feeds_in_another_order_change_nothing,
        answers_survive_the_next_run,
        writing_to_an_answer_reaches_neither_feeds_nor_weights,
        a_feed_changed_afterwards_changes_no_answer,
        feeds_are_not_written_to_and_may_be_read_only,
        feeds_need_not_be_contiguous,
        values_that_are_not_finite_come_through,
        an_empty_batch_is_answered_empty_or_refused_in_one_sentence,
        what_does_not_fit_is_refused_in_the_same_words_and_nothing_is_lost,
        bytes_in_another_order_are_refused,
        it_says_where_it_runs,
    )
}
# Every promise is listed: a function that takes a session and is not here would never run.
assert len(PROMISES) == sum(
    1 for name, value in list(globals().items()) if getattr(value, "__annotations__", {}).get("session")
)
