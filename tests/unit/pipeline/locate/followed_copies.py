"""A net of a test as a source in a folder, and copies of it that are followed to where they depart."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnxruntime

from transload.converters.minimal_repro.onnx_pieces import OnnxCutter
from transload.models.signature import Array, Signature
from transload.models.sources import CodeRef, Source, write_source
from transload.pipeline.locate.locate_records import (
    CandidateGraph,
    CandidateOperator,
    Capture,
    FollowFacts,
    FollowOptions,
)
from transload.pipeline.locate.match_values import Follower
from transload.serving.tracing.traced_model import TracedModel


def write_net(root: Path, code: str, signature: Signature) -> Path:
    """Write net.py with the class Net, and the folder of its source beside it; return that folder."""
    (root / "net.py").write_text(textwrap.dedent(code))
    folder = root / "source"
    folder.mkdir()
    write_source(folder, Source(CodeRef("net.py:Net", str(root)), signature, ""))
    return folder


def follow_copy(source: Path, path: Path, feeds: Mapping[str, Array], **options: Any) -> FollowFacts:
    """Follow the ONNX file at `path` through its source, by its answers and inner values to `feeds`."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    answers = {"output": session.run(["output"], dict(feeds))[0]}
    cutter = OnnxCutter(path)
    cutter.record(feeds)
    rows = zip(cutter.operators, cutter.reads, cutter.writes, strict=True)
    operators = tuple(CandidateOperator(*names, tuple(reads), tuple(writes)) for names, reads, writes in rows)
    graph = CandidateGraph(operators, {"output": "output"})
    capture = Capture(graph, cutter.values, feeds, answers, cutter.constants)
    return Follower(TracedModel(source, 1), capture, FollowOptions(**options)).places()
