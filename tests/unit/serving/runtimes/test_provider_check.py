"""Provider truth: which placements count as the device that was asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from transload.serving.runtimes.onnxruntime_session import device_of
from transload.serving.runtimes.provider_check import (
    check_device,
    computed_elsewhere,
    number,
    numbered_device,
    placed,
)


@pytest.mark.parametrize(
    ("got", "asked", "sentence"),
    [
        ("cpu", "cpu", None),
        ("cuda:0", "cuda", None),
        ("cuda:1", "cuda:1", None),
        ("cpu", "cuda", "asked to run on cuda:0, it runs on cpu"),
        ("cuda:0", "cuda:1", "asked to run on cuda:1, it runs on cuda:0"),
        ("cuda:0", "cpu", "asked to run on cpu, it runs on cuda:0"),
        ("unknown", "cuda", None),
        ("cuda:1", "auto", None),
    ],
)
def test_a_session_that_runs_elsewhere_is_one_sentence(got: str, asked: str, sentence: str | None) -> None:
    session: Any = SimpleNamespace(device=got)
    assert check_device(session, asked) == sentence


def test_a_device_has_a_number() -> None:
    assert (numbered_device("cuda"), numbered_device("cpu"), number("cuda"), number("cuda:3"), number("cpu")) == (
        "cuda:0",
        "cpu",
        0,
        3,
        0,
    )


@pytest.mark.parametrize(
    ("nodes", "device"),
    [
        ([("Conv", "cuda:0"), ("Gemm", "cuda:0")], "cuda:0"),
        ([("Conv", "cuda:0"), ("Gemm", "cpu")], "cpu"),
        ([("Conv", "cuda:0"), ("Shape", "cpu"), ("Gather", "cpu"), ("Concat", "cpu")], "cuda:0"),
        ([("Shape", "cpu"), ("Gather", "cpu")], "cpu"),
        ([("Add", "cuda:0")], "cuda:0"),
        ([], "cuda:0"),
    ],
)
def test_a_graph_runs_where_what_computes_lies(nodes: list[tuple[str, str]], device: str) -> None:
    assert placed(nodes, "cuda:0") == device


def session_of(providers: list[str], nodes: list[tuple[str, str]]) -> Any:
    parts = [
        SimpleNamespace(ep_name=provider, get_nodes=lambda kind=kind: [SimpleNamespace(op_type=kind)])
        for kind, provider in nodes
    ]
    return SimpleNamespace(get_providers=lambda: providers, get_provider_graph_assignment_info=lambda: parts)


CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


@pytest.mark.parametrize(
    ("providers", "nodes", "asked", "device"),
    [
        ([CUDA, CPU], [("Conv", CUDA)], "cuda", "cuda:0"),
        ([CUDA, CPU], [("Conv", CUDA), ("Shape", CPU)], "cuda:2", "cuda:2"),
        ([CUDA, CPU], [("Conv", CUDA), ("NonMaxSuppression", CPU)], "cuda", "cpu"),
        ([CPU], [("Conv", CPU)], "cuda", "cpu"),
        ([CPU, CUDA], [("Conv", CPU)], "cuda", "cpu"),
        ([CPU], [("Conv", CPU)], "cpu", "cpu"),
        ([CPU], [], "cuda", "cpu"),
    ],
)
def test_onnx_runtime_is_believed_by_what_it_got_and_not_by_what_it_was_asked(
    providers: list[str], nodes: list[tuple[str, str]], asked: str, device: str
) -> None:
    assert device_of(session_of(providers, nodes), asked) == device


@pytest.mark.parametrize(
    ("nodes", "others"),
    [
        ([("Conv", "OpenVINO"), ("Gemm", "OpenVINO")], []),
        ([("Conv", "OpenVINO"), ("Shape", CPU), ("Identity", CPU)], []),
        ([("Conv", "OpenVINO"), ("Erf", CPU), ("Erf", CPU), ("Resize", CUDA)], ["Erf", "Resize"]),
        ([("Conv", CPU)], ["Conv"]),
        ([("Add", CPU)], ["all of it"]),
        ([], ["all of it"]),
    ],
)
def test_what_a_provider_leaves_to_another_is_named(nodes: list[tuple[str, str]], others: list[str]) -> None:
    assert computed_elsewhere(nodes, "OpenVINO") == others
