"""The table that compares runtimes behind one protocol."""

from __future__ import annotations

from dataclasses import replace

from transload.pipeline.show import html_page, markdown
from transload.pipeline.show.served_view import NOTE, served_table

from . import samples

REFERENCE = "source in oip-grpc"
ROWS = (
    samples.latency("source", "oip-grpc", 2e-3),
    replace(samples.latency("torchscript", "oip-grpc", 1.5e-3, ratio=0.76), reference=REFERENCE),
    replace(samples.latency("onnx", "oip-grpc", 1e-3, ratio=0.49), reference=REFERENCE),
    samples.latency("saved-model", "tfserving-grpc", 3e-3, ratio=1.1),
    replace(samples.latency("saved-model", "oip-grpc", 1.2e-3, ratio=0.61), reference=REFERENCE),
    samples.latency("pt2", "tfserving-grpc", 9e-3),
    samples.latency("onnx", "oip-grpc", 1e-6, device="cuda:0"),
)


def test_copies_behind_one_protocol_are_held_against_one_reference() -> None:
    run = replace(samples.result(), latency=ROWS)
    assert served_table(run).texts() == [
        ("served", "by", "protocol", "p50, batch 1"),
        ("source", "torch", "oip-grpc", "2 ms ref"),
        ("torchscript", "torchscript", "oip-grpc", "1.5 ms 0.76\u00d7"),
        ("onnx", "onnxruntime", "oip-grpc", "1 ms 0.49\u00d7"),
        ("saved-model", "tensorflow", "oip-grpc", "1.2 ms 0.61\u00d7"),
        ("saved-model", "tensorflow", "tfserving-grpc", "3 ms 1.50\u00d7"),
    ]
    page, text, terminal = html_page.render_html(run, {}), markdown.render_markdown(run), samples.render(run, 120)
    assert all("oip-grpc" in place and "1.50\u00d7" in place for place in (page, text, terminal))
    assert all(NOTE.split(";")[0] in " ".join(place.split()) for place in (page, text, terminal))


def test_a_run_that_serves_one_copy_has_no_such_table() -> None:
    run = replace(samples.result(), latency=ROWS[3:4])
    assert served_table(run).texts() == []
    assert NOTE[:20] not in markdown.render_markdown(run)
