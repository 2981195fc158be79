"""What Ray prints of its nodes stays out of what a command prints."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from transload.pipeline.extras.cluster.ray_cluster import silence_node_messages


def test_a_node_that_dies_prints_nothing_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    worker = SimpleNamespace(print_to_stdstream=lambda data, ignore_prefix: print(data["lines"]))
    silence_node_messages(SimpleNamespace(_private=SimpleNamespace(worker=worker)))
    worker.print_to_stdstream({"lines": ["Raylet is terminated."]}, ignore_prefix=False)
    assert capsys.readouterr().out == ""


def test_a_ray_without_that_function_is_left_alone() -> None:
    worker = SimpleNamespace()
    silence_node_messages(SimpleNamespace(_private=SimpleNamespace(worker=worker)))
    assert vars(worker) == {}
