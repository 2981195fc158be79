"""What is told of a foreign error."""

from __future__ import annotations

from itertools import pairwise

import pytest

from transload.models.errors import BadRequest
from transload.models.library_messages import first_line, one_line, one_line_texts


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
        ("Exception encountered when calling layer x (type T).\n\nRank 1.\n", "layer x (type T): Rank 1."),
        (ValueError("x" * 500), "x" * 200),
    ],
)
def test_the_first_line_that_says_anything_is_told(error: object, line: str) -> None:
    assert first_line(error) == line


def raised_from(*said: str) -> Exception:
    """An error as a tool raises it from another, outermost first."""
    errors = [RuntimeError(each) for each in said]
    for outer, inner in pairwise(errors):
        outer.__cause__ = inner
    return errors[0]


EXPORT = "Failed to convert the exported program to an ONNX model. \x1b[96mThis is step 3/3\x1b[0m. Next steps:\n- try"
NODE = "Error when translating node %mul_3. See the stack trace for more information."
MISSING = "No ONNX function found for <OpOverload(op='aten.mul', overload='Scalar')>."


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (raised_from(EXPORT, NODE, MISSING), MISSING),
        (
            raised_from(
                "An error occurred when running the '<onnx_ir.passes.PassManager object at 0x7f9c>' pass after []",
                "An error occurred at step 0",
                "Error during constant folding for node 'node_split' (::SplitToSequence)",
                "'NoneType' object has no attribute 'ndim'",
            ),
            "Error during constant folding for node 'node_split' (::SplitToSequence)",
        ),
        (raised_from("my configuration is wrong", "depth"), "my configuration is wrong"),
        (raised_from("An error occurred at step 0"), "An error occurred at step 0"),
        (ValueError("<onnx_ir.passes.PassManager object at 0x7f9cefe9f710> fails"), "PassManager fails"),
        (
            ValueError(
                "Unsupported: ONNX export of operator Unfold, input size not accessible. Please feel free to request "
                "support or submit a pull request on PyTorch GitHub: https://github.com/pytorch/pytorch/issues  "
                "[Caused by the value 'x defined in (%x : Float(*, 3, *, *)"
            ),
            "Unsupported: ONNX export of operator Unfold, input size not accessible.",
        ),
    ],
)  # fmt: skip
def test_what_a_tool_says_to_its_own_people_is_left_to_the_log(error: object, line: str) -> None:
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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("aten::add at net.py::Net", "aten::add at net.py::Net"), ("[::1]:8501", "[::1]:8501"), ("a::", "a::"),
        ("## a [x]", "## a [x]"), ("caf\u00e9 \u6a21\u578b", "caf\u00e9 \u6a21\u578b"),
        ("::error::x", r"\x3a:error::x"), ("a\n::error::x", r"a\n::error::x"),
        ("a ::add-mask::b", r"a \x3a:add-mask::b"), ("a\t::error::x", r"a\t::error::x"),
        ("##[error]x", r"\x23#[error]x"), ("a##vso[x]", r"a\x23#vso[x]"),
        ("a\x1b]0;t\x07", r"a\x1b]0;t\x07"), ("\u2028a\u202eb\x9b", r"\u2028a\u202eb\x9b"),
    ],
)  # fmt: skip
def test_a_line_steers_no_terminal_and_no_ci(text: str, line: str) -> None:
    assert one_line(text) == line


def test_texts_of_a_document_look_like_no_verdict_of_ours() -> None:
    document = {"PASS  a": ["FAIL", 1, None, {"b": "x PASS  y", "c": "pass", "d": "COMPASS PASSED"}]}
    assert one_line_texts(document) == {
        r"\x50ASS  a": [r"\x46AIL", 1, None, {"b": r"x \x50ASS  y", "c": "pass", "d": "COMPASS PASSED"}]
    }
