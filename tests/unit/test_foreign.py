"""What is told of a foreign error."""

from __future__ import annotations

import pytest

from transload.models.errors import BadRequest
from transload.models.foreign import first_line


class Mute(Exception):
    def __str__(self) -> str:
        raise AttributeError("detail")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Mute(), "Mute"),
        (ValueError("\n   \n  no such axis  \nsee the log"), "no such axis"),
        (ValueError(), "ValueError"),
        (KeyError(" "), "' '"),
        (RuntimeError("it fails at \x1b[96mstep 3/3\x1b[0m"), "it fails at step 3/3"),
        (OSError("no file a\udcff\x1b[2J\x07"), r"no file a\udcff\x1b[2J\x07"),
        ("only text", "only text"),
        (ValueError("x" * 500), "x" * 200),
    ],
)
def test_the_first_line_that_says_anything_is_told(error: object, line: str) -> None:
    assert first_line(error) == line


def test_a_caller_may_cut_later_and_pass_over_lines_that_say_nothing() -> None:
    error = ValueError("Graph execution error:\n\nDetected at node x\nshapes differ")
    assert first_line(error, 6, skip=("Graph", "Detected")) == "shapes"
    assert first_line(ValueError("Graph"), skip=("Graph",)) == "ValueError"
    assert first_line(ValueError("Graph"), skip=("Graph",), nothing="no message") == "no message"


def test_a_sentence_of_ours_can_be_written_whatever_it_names() -> None:
    error = BadRequest("no such file: caf\udce9\x1b]0;x\x07.onnx", fix="check caf\udce9")
    assert str(error) == "no such file: caf\\udce9\\x1b]0;x\\x07.onnx\n  fix: check caf\\udce9"
    assert (error.what + error.fix).isprintable()
