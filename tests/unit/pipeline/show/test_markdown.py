"""report.md: short, whole, and nothing in it breaks out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from transload.pipeline.show.markdown import render_markdown, write_markdown
from transload.pipeline.show.markdown_text import escaped

from . import samples


def test_it_opens_with_the_verdict() -> None:
    lines = render_markdown(samples.result()).splitlines()
    assert lines[0] == "## transload: fail"
    assert lines[2].startswith("answering, drift and metric loss failed for saved-model and tflite:int8; ")


def test_the_table_has_a_row_for_each_runtime_and_equal_cells() -> None:
    rows = [line for line in render_markdown(samples.result()).splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + 12
    assert {line.count(" | ") for line in rows} == {8}


def test_failures_carry_sentence_and_log() -> None:
    text = render_markdown(samples.result(), logs=samples.LOGS)
    assert f"- **fail**, saved-model in tfserving-rest: {samples.SENTENCE} (log: logs/bench-rest.log)" in text


def test_doubts_are_folded_away() -> None:
    text = render_markdown(samples.result())
    folded = text[text.index("<details>") : text.index("</details>")]
    assert "2 doubts about latencies" in folded
    assert "a p99 from 200 samples is a guess" in folded


def test_a_good_run_has_nothing_in_the_way() -> None:
    assert "What stands in the way" not in render_markdown(samples.passing())


def test_an_empty_run_is_still_a_report() -> None:
    text = render_markdown(samples.empty())
    assert text.startswith("## transload: inconclusive\n\nnothing was made, so nothing was judged.\n")
    assert "| " not in text


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("a|b", r"a\|b"),
        ("<script>", "&lt;script&gt;"),
        ("*_`#", r"\*\_\`\#"),
        ("[x](https://evil.example)", r"\[x\](https&#58;//evil.example)"),
        ("@team", "&#64;team"),
        ("two\nlines", "two lines"),
        ("![x](y)", r"!\[x\](y)"),
    ],
)
def test_names_stay_text(text: str, safe: str) -> None:
    assert escaped(text) == safe


def test_a_hostile_name_breaks_no_row() -> None:
    text = render_markdown(samples.renamed(samples.result(), "onnx", "x |\n| <img src=x> @all"))
    assert "<img" not in text
    assert "@all" not in text
    rows = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("| ")]
    assert {line.count(" | ") for line in rows} == {8}


def test_hostile_text_in_every_field_stays_text() -> None:
    text = render_markdown(samples.hostile(samples.result(), "<img src=x>|@all"), logs=samples.LOGS)
    assert "<img" not in text
    assert "@all" not in text


def test_it_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    write_markdown(replace(samples.result(), latency=()), path)
    assert path.read_text(encoding="utf-8") == render_markdown(replace(samples.result(), latency=()))
    assert list(tmp_path.iterdir()) == [path]


def test_the_probe_that_is_furthest_below_its_limit_is_named() -> None:
    told = (
        "3 of 4 probes pass; furthest below its limit: 11.9 dB, limit 101 dB (tflite:int8 in tflite, whole test set, "
    )
    assert told in render_markdown(samples.result())


def test_what_was_asked_and_what_was_not_is_said_once_for_all_copies_alike() -> None:
    text = render_markdown(samples.result())
    assert text.count("asked of ") == 2
    assert (
        "asked of pt2 in torch and 1 more: 360 samples in 31 calls; batch 1, 2, 5, 360; image from 0 to 1000, " in text
    )
    assert "stress: none; not asked: batch 361 and larger; stress (image large, nan)" in text


def test_a_target_that_was_lost_names_the_piece_and_the_line_at_which_it_fails() -> None:
    run = samples.judged(replace(samples.result(), artifacts=(samples.artifact("keras", None),)))
    assert "at its smallest: torch.export fails at CumSum (net.py:14" in render_markdown(run)


def test_a_copy_that_failed_names_the_operator_and_the_line_at_which_it_departs() -> None:
    assert "located: batch\\_norm in the module norm2, net.py:28" in render_markdown(samples.result())
