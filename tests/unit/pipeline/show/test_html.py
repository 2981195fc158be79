"""report.html: whole, offline, and inert against what models are called."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from transload.pipeline.result.schema import RunResult
from transload.pipeline.show.html_page import render_html, write_html

from . import samples


@dataclass
class Page(HTMLParser):
    """The elements of a page: tags with attributes, and the text inside each kind of element."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data


def parsed(text: str) -> Page:
    page = Page()
    page.feed(text)
    return page


def rendered(run: RunResult) -> str:
    return render_html(run, samples.samples(run), logs=samples.LOGS, repeat=samples.REPEAT)


@pytest.fixture(scope="module")
def text() -> str:
    return rendered(samples.result())


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return parsed(text)


def words(text: str) -> str:
    """What a person reads: without scripts, styles and tags."""
    bare = re.sub(r"(?s)<(script|style)\b.*?</\1>", " ", text)
    return " ".join(re.sub(r"<[^>]+>", " ", bare).split())


def test_nothing_is_loaded_from_anywhere(page: Page) -> None:
    loading = {"src", "href", "srcset", "action", "data", "poster", "background", "formaction", "ping", "xlink:href"}
    sources = [(tag, attrs.get("src")) for tag, attrs in page.tags if loading & set(attrs)]
    assert sources == [("img", f"data:image/png;base64,{samples.PICTURE}")] * 2
    for style in page.texts["style"]:
        assert "url(" not in style
        assert "@import" not in style
    assert not {"link", "iframe", "object", "embed", "base"} & {tag for tag, _ in page.tags}


def test_the_policy_lets_only_the_pages_own_scripts_run(page: Page) -> None:
    policy = next(attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert not re.search(r"https?:|\*|unsafe-eval|script-src[^;]*unsafe-inline", policy)
    kinds = [attrs.get("type") for tag, attrs in page.tags if tag == "script"]
    assert kinds == ["application/json", "text/plain", None]
    _, plotly, drawing = page.texts["script"]
    for script in (unpacked(plotly), drawing):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def unpacked(script: str) -> str:
    return gzip.decompress(base64.b64decode(script)).decode()


def test_plotly_is_in_the_page_once_and_compressed(text: str, page: Page) -> None:
    assert "plotly.js v" in unpacked(page.texts["script"][1])
    assert len(text) < 2.5e6


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "</script><script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "'-alert(1)-'",
        "{{ 7*7 }}",
        "<a href='javascript:alert(1)'>x</a>",
        "<!--",
    ],
)
def test_a_hostile_name_stays_text(name: str, page: Page) -> None:
    found = parsed(rendered(samples.renamed(samples.result(), "onnx", name)))
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in page.tags]
    assert not [attrs for _, attrs in found.tags if any(key.startswith("on") for key in attrs)]
    assert name in "".join(found.texts["td"])
    data = json.loads(found.texts["script"][0])
    assert "<script" not in json.dumps(data)  # plotly reads labels as HTML
    assert "<img" not in json.dumps(data)


def test_hostile_text_in_every_field_stays_text(page: Page) -> None:
    bad = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    found = parsed(rendered(samples.hostile(samples.result(), bad)))
    kinds = [tag for tag, _ in found.tags]
    assert set(kinds) == {tag for tag, _ in page.tags}
    assert kinds.count("script") == 3
    assert not [attrs for _, attrs in found.tags if any(key.startswith("on") for key in attrs)]


def test_the_data_of_the_plots_cannot_end_their_element(page: Page) -> None:
    assert not set("<>&") & set(page.texts["script"][0])


def test_the_verdict_is_on_top(text: str) -> None:
    read = words(text)
    assert read.index("answering, drift and metric loss failed") < read.index("Which one to release")


@pytest.mark.parametrize(
    "fact",
    [
        "saved-model in tfserving-rest fail the server closed the connection after 3 of 20 rounds "
        "log: logs/bench-rest.log",
        "equals the reference after permutation (0,2,1): layout lost",
        "torch.export \u2192 torch.onnx-dynamo \u2192 onnx2tf",
        "a p99 from 200 samples is a guess",
        "Intel Xeon 2.6 GHz, 2 cores, 24 GB memory",
        "onnxruntime 1.31.1",
        "lowering: repeat/07-saved-model.sh",
        "exit status 1 (fail)",
        "image=float32[batch,1,8,8] \u2192 logits=float32[batch,10]",
        "1.22\u00d7 [1.18, 1.26]",
        "tflite:int8 in tflite fail 0 of 1 probes pass; furthest below its limit: 11.9 dB, limit 101 dB",
        "image 1000 times as large 5 height=12 20 131 dB 101 dB 1.13e\u221206 pass "
        "limit: the model itself agrees to 136 dB where a batch is asked sample by sample",
        "pt2 in torch, onnx in onnxruntime 360 samples in 31 calls batch 1, 2, 5, 360 image from 0 to 1000, "
        "magnitudes from 0.0625, with NaN or infinities image large, nan batch 361 and larger",
        "tflite:int8 in tflite 360 samples in 31 calls batch 1, 2, 5, 360 image from 0 to 1, magnitudes from 0.0625 "
        "none batch 361 and larger; stress (image large, nan)",
        "Samples of the test set with the largest differences sample label output difference reference candidate "
        "226 7 logits NaN or inf 5.25 NaN or inf 197 9 logits 0.125 \u22125.125 \u22125",
        "onnx in onnxruntime pass 2 of 2 probes pass; nearest to its limit: 128 dB, limit 101 dB (whole test",
        "whole test set 360 20 identical \u2013 0 pass",
    ],
)
def test_every_section_tells_its_facts(text: str, fact: str) -> None:
    assert fact in words(text)


def test_every_plot_has_its_place_and_its_data(page: Page) -> None:
    data = json.loads(page.texts["script"][0])
    places = {attrs.get("id") for tag, attrs in page.tags if tag == "div"}
    assert set(data) == {"latency-0", "latency-1", "drift", "errors", "metric", "size"}
    assert set(data) <= places


def test_every_format_has_a_colour_in_the_light_and_in_the_dark(page: Page) -> None:
    (style,) = page.texts["style"]
    for form in ("pt2", "torchscript", "onnx", "saved-model", "tflite", "keras", "other"):
        assert len(re.findall(rf"--format-{form}: #[0-9a-f]{{6}};", style)) == 2


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"artifacts": (), "drift": (), "latency": (), "gate": (), "errors": ()}, "There is nothing to plot"),
        ({"latency": ()}, "No latency was measured."),
        ({"gate": ()}, "No rule was asked for."),
        ({"drift": ()}, "Drift (0)"),
        ({"probes": ()}, "No probe was recorded."),
        ({"exercised": ()}, "No copy was asked anything."),
        ({"artifacts": (samples.artifact("keras", None),)}, "the converter ended early (killed by SIGABRT)"),
        ({"artifacts": (replace(samples.artifact("keras", None), tried=()),)}, "no route leads there"),
        ({"drift": tuple(samples.silent(row) for row in samples.result().drift)}, "no answer"),
        ({"latency": (samples.latency("onnx", "onnxruntime", None),)}, "no answer"),
        ({"latency": (samples.latency("onnx", "onnxruntime", 1e-3, ci95=None),)}, "1 ms"),
    ],
)
def test_empty_sections_and_failed_rows_have_words(change: dict[str, object], fact: str) -> None:
    run = replace(samples.result(), **change)  # type: ignore[arg-type]
    assert fact in words(rendered(run))


def test_a_page_without_plots_carries_no_script() -> None:
    found = render_html(samples.empty(), {})
    assert "<script" not in found
    assert any("script-src 'none'" in (attrs.get("content") or "") for _, attrs in parsed(found).tags)
    assert len(found) < 30_000


def test_latencies_that_may_not_be_compared_have_a_table_of_their_own() -> None:
    run = samples.result()
    other = samples.latency("onnx", "gpu-runtime", 1e-5, device="cuda:0")
    read = words(rendered(replace(run, latency=(*run.latency, other))))
    assert read.index("not comparable with the table above") < read.index("gpu-runtime")


def test_it_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    run = samples.empty()
    write_html(run, {}, path)
    assert path.read_text(encoding="utf-8") == render_html(run, {})
    assert list(tmp_path.iterdir()) == [path]


def test_a_target_that_was_lost_names_the_piece_and_the_line_at_which_it_fails() -> None:
    run = samples.judged(replace(samples.result(), artifacts=(samples.artifact("keras", None),)))
    assert "t its smallest: torch.export fails at CumSum (net.py:14" in words(rendered(run))


def test_a_copy_that_failed_names_the_operator_and_the_line_at_which_it_departs() -> None:
    assert "Located: batch_norm in the module norm2, net.py:28" in words(rendered(samples.result()))
