"""The words of --load, and what is said of those that are none."""

from __future__ import annotations

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.result.load_cases import LoadCase, LoadEngine, LoadScenario, check_load, parse_load


def test_every_form_is_read() -> None:
    cases = parse_load(["closed:1,2", "constant:0.5", "poisson:100,200", "server:200@10ms", "single-stream", "offline"])
    assert cases == (
        LoadCase(LoadScenario.CLOSED, concurrency=1),
        LoadCase(LoadScenario.CLOSED, concurrency=2),
        LoadCase(LoadScenario.CONSTANT, rate_per_s=0.5),
        LoadCase(LoadScenario.POISSON, rate_per_s=100),
        LoadCase(LoadScenario.POISSON, rate_per_s=200),
        LoadCase(LoadScenario.SERVER, rate_per_s=200, bound_s=0.01),
        LoadCase(LoadScenario.SINGLE_STREAM),
        LoadCase(LoadScenario.OFFLINE),
    )
    assert parse_load(["multi-stream:8"]) == (LoadCase(LoadScenario.MULTI_STREAM, concurrency=8),)


def test_a_case_is_there_once_and_its_text_is_read_again() -> None:
    texts = ["closed:4,4", "server:50,100@1.5s", "poisson:12.5", "multi-stream:8", "single-stream", "closed:4"]
    cases = parse_load(texts)
    assert len(cases) == 6
    assert parse_load([case.text for case in cases]) == cases


FORMS = "closed:1,2,4, constant:100, poisson:100,200, server:200@10ms, single-stream, multi-stream:8 or offline"


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("open:3", "'open:3' is no load", f"use {FORMS}"),
        ("", "'' is no load", f"use {FORMS}"),
        (
            "closed:0",
            "closed: '0' is no number of connections",
            "use whole numbers from 1 to 256, as in --load closed:1,8",
        ),
        (
            "multi-stream",
            "multi-stream: '' is no number of samples of a query",
            "use whole numbers from 1 to 256, as in --load multi-stream:1,8",
        ),
        ("poisson:fast", "poisson: 'fast' is no rate", "use requests a second, as in --load poisson:100,200"),
        ("constant:nan", "constant: 'nan' is no rate", "use requests a second, as in --load constant:100,200"),
        ("server:0@10ms", "server: '0' is no rate", "use requests a second, as in --load server:200@10ms"),
        (
            "server:200",
            "'server:200' has no latency bound",
            "write rate and bound of the 99th percentile, as in --load server:200@10ms",
        ),
        (
            "server:200@10",
            "'server:200@10' has no latency bound",
            "write rate and bound of the 99th percentile, as in --load server:200@10ms",
        ),
        ("offline:8", "offline takes no number, got 'offline:8'", "write --load offline"),
    ],
)
def test_what_is_no_load_is_refused_with_a_fix(text: str, what: str, fix: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_load([text])
    assert (caught.value.what, caught.value.fix) == (what, fix)


def test_loadgen_alone_has_no_closed_loop() -> None:
    cases = parse_load(["closed:1"])
    check_load(cases, [LoadEngine.TRANSLOAD, LoadEngine.LOADGEN], 10)
    with pytest.raises(BadRequest, match=r"^LoadGen has no scenario like closed:1\n"):
        check_load(cases, [LoadEngine.LOADGEN], 10)


def test_more_requests_than_can_be_kept_are_refused() -> None:
    cases = parse_load(["poisson:100000"])
    check_load(cases, [LoadEngine.TRANSLOAD], 20)
    with pytest.raises(BadRequest, match=r"^poisson:100000 for 21 s is 2100000 requests, above 2000000\n"):
        check_load(cases, [LoadEngine.TRANSLOAD], 21)
