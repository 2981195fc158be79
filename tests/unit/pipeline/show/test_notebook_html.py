"""Results in a notebook: every fact, escaped, nothing to load, readable on any ground."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import transload
from transload.models.errors import BadRequest
from transload.pipeline.commands.bench import BenchResult
from transload.pipeline.commands.compare import CompareResult
from transload.pipeline.commands.convert import ConvertedModel, ConvertManyResult, ConvertResult
from transload.pipeline.commands.validate import ValidateResult
from transload.pipeline.result.compare.run_comparison import compare_runs
from transload.pipeline.result.schema import to_json
from transload.pipeline.show.notebook_html import in_notebook

from . import samples

BAD = "<img src=x onerror=alert(1)>&\"'"
FOLDER = Path("made")


class PageReader(HTMLParser):
    """The elements of a piece of HTML, its attributes, and the text of its rows."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self._open.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def results() -> dict[str, object]:
    """Return one of each kind of result, of the same run."""
    run = samples.result()
    one = ConvertResult(run.artifacts, FOLDER, doubts=("not sandboxed",))
    lost = ConvertedModel("net-Net", "net.py:Net", FOLDER, None, BadRequest("it has no inputs", fix="name them"))
    return {
        "run": in_notebook(run),
        "convert": one,
        "convert_all": ConvertManyResult((ConvertedModel("digits", "zoo:digits-cnn", FOLDER, one), lost), FOLDER),
        "validate": ValidateResult(run.drift, run.gate, one.decided, FOLDER, "by accuracy"),
        "bench": BenchResult(run.latency, FOLDER, "batch 4 in place of 3"),
        "compare": CompareResult(compare_runs(samples.passing(), run), FOLDER),
    }


FACTS = {
    "run": ("fail", "tflite:int8-dynamic", "45.6 KB", "11.9 dB", "accuracy 94.44 %", "tflite 19 µs at batch 1"),
    "convert": ("tflite:int8-dynamic", "44.9 KB", "unverified", "not sandboxed", "in made"),
    "convert_all": ("2 models, ", "digits", "net-Net: it has no inputs; name them", "in made"),
    "validate": ("tfserving-grpc", "11.9 dB", "checks passed", "by accuracy", "in made"),
    "bench": ("tfserving-rest", "742 µs", "rows measured", "batch 4 in place of 3", "in made"),
    "compare": ("figures are the same", "16 inconclusive", "in made"),
}  # fmt: skip


@pytest.mark.parametrize("name", FACTS)
def test_every_result_has_its_facts_and_loads_nothing(name: str) -> None:
    result = results()[name]
    html: str = result._repr_html_()  # type: ignore[attr-defined]
    page = PageReader(html)
    for fact in FACTS[name]:
        assert fact in page.text, fact
    assert set(page.elements) <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert page.attributes == {"style"}
    assert not re.search(r"url\(|https?:|//", html)


@pytest.mark.parametrize("name", FACTS)
def test_every_function_of_the_api_that_judges_returns_such_a_result(name: str) -> None:
    assert type(results()[name]).__name__ == getattr(transload, name).__annotations__["return"]


def test_names_of_models_are_text() -> None:
    run = samples.hostile(samples.result(), BAD)
    artifacts = ConvertResult(run.artifacts, Path(BAD))
    results_of_a_stranger = (
        in_notebook(run),
        ConvertManyResult((ConvertedModel(BAD, BAD, FOLDER, artifacts),), Path(BAD)),
        BenchResult(run.latency, FOLDER, BAD),
        ValidateResult(run.drift, run.gate, artifacts.decided, FOLDER, BAD),
    )
    for html in (result._repr_html_() for result in results_of_a_stranger):
        page = PageReader(html)
        assert "img" not in page.elements
        assert page.attributes == {"style"}
        assert "<img src=x onerror" in page.text


def test_words_are_read_on_a_light_and_on_a_dark_ground() -> None:
    """Text takes the page's colour; only chips have one of their own, with white on it at 4.5 to 1 at least (WCAG)."""
    html = in_notebook(samples.result())._repr_html_()
    for style in re.findall(r'style="([^"]*)"', html):
        colours = dict(part.split(":") for part in style.split(";") if "color" in part or "background" in part)
        assert colours.get("color") in (None, "inherit") or contrast(colours["background"], "#ffffff") >= 4.5


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_long_tables_are_cut_and_say_so() -> None:
    run = samples.result()
    html = BenchResult(run.latency * 10, FOLDER)._repr_html_()
    assert html.count("<tr>") == 61
    assert f"{len(run.latency) * 10 - 60} further rows are not shown" in html


def test_an_empty_result_is_a_sentence() -> None:
    page = PageReader(in_notebook(samples.empty())._repr_html_())
    assert "nothing was made" in page.text
    assert "table" not in page.elements


def test_the_document_of_a_run_is_as_it_was() -> None:
    assert "_repr_html_" not in json.loads(to_json(in_notebook(samples.result())))
