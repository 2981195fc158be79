"""What `convert` prints for a person where targets are lost: each cause once, whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from transload.models.formats import parse_target
from transload.pipeline.cli.output.convert_output import lines, lines_of_all
from transload.pipeline.commands.convert import ConvertedModel, ConvertManyResult, ConvertResult
from transload.pipeline.minimal_repro.search import MinimalRepro
from transload.pipeline.result.schema import ArtifactRow, RouteStatus, Status, TriedRow, WeightsRow

CODE = "u = [" + ", ".join(f"F.max_pool2d(x, {size})" for size in range(2, 12)) + "]"
WHY = f"the axis height of x cannot be dynamic: its size is a constant at net.py:11 (`{CODE}`)"
MEND = "keep it a size there"
SHORT = f"`{CODE[:80]}...`"


def test_of_two_lines_of_code_what_stands_between_them_stays() -> None:
    row = lost("onnx", ("torch.onnx-torchscript", f"it stops at net.py:5 (`for t in x:`), and {'far ' * 30}at {WHY}"))
    (line,) = [each for each in lines(ConvertResult((row,), Path("out"))) if "net.py:5" in each]
    assert line.endswith(f"(`for t in x:`), and {'far ' * 30}at {WHY.replace(f'`{CODE}`', SHORT)}")


def lost(name: str, *tried: tuple[str, str]) -> ArtifactRow:
    """A target that no route led to: routes, as in "a > b", and what each ended in."""
    rows = tuple(TriedRow(tuple(route.split(" > ")), RouteStatus.FAILED, reason) for route, reason in tried)
    target = parse_target(name)
    words = name, str(target.format), str(target.precision)
    return ArtifactRow(*words, None, None, None, Status.FAILED, (), rows, 0.0, None, ())


def test_a_cause_that_keeps_several_targets_from_being_made_is_told_once() -> None:
    older = "Exporting the operator 'aten::diff' to ONNX opset version {} is not supported"
    rows = (
        lost(
            "onnx",
            ("torch.export > torch.onnx-dynamo", f"torch.export: {WHY}; {MEND}"),
            ("torch.onnx-torchscript", f"{older.format(17)} (logs/convert.onnx.torch.onnx-torchscript.log)"),
            ("torch.jit > torchscript.onnx", f"torch.jit: {WHY}; {MEND}"),
        ),
        lost(
            "tflite",
            ("torch.export > torch.onnx-dynamo > lowering-tflite", f"torch.export: {WHY}; {MEND}"),
            ("torch.onnx-torchscript > lowering-tflite", f"torch.onnx-torchscript: {older.format(20)}"),
            ("torch.onnx-torchscript > onnx2tf", "ValueError: a name"),
        ),
    )
    smallest = tuple(
        MinimalRepro(
            row.name, ("torch.export",), None, f"torch.export fails at the module a: {WHY}", "repeat/a.py", MEND
        )
        for row in rows
    )
    done = ConvertResult(rows, Path("out"), smallest)
    assert lines(done)[3:] == [
        f"onnx, tflite: torch.export: {WHY.replace(f'`{CODE}`', SHORT)}",
        f"  by torch.onnx-torchscript: {older.format(17)} (logs/convert.onnx.torch.onnx-torchscript.log)",
        "  by torch.onnx-torchscript > onnx2tf: ValueError: a name",
        "  at its smallest: torch.export fails at the module a",
        "  script: out/repeat/a.py",
        f"  fix: {MEND}",
        "",
        "FAIL  0 of 2 targets verified, in out",
    ]
    assert CODE in done.document["smallest"][0]["what"]
    assert CODE in done.document["artifacts"][1]["tried"][0]["reason"]


def test_other_causes_are_told_by_themselves() -> None:
    rows = (lost("onnx", ("torch.onnx-dynamo", "no operator")), lost("tflite", ("lowering", "no kernel; use another")))
    piece = MinimalRepro("tflite", ("lowering",), 1, "lowering fails at Conv: off by 3", "repeat/b.py", "shrink it")
    assert lines(ConvertResult(rows, Path("out"), (piece,)))[3:-2] == [
        "onnx: no operator",
        "tflite: no kernel; use another",
        "  at its smallest: lowering fails at Conv: off by 3",
        "  script: out/repeat/b.py",
        "  fix: shrink it",
    ]


def test_a_mend_names_no_format_that_failed_in_the_same_command() -> None:
    of_onnx = lost("onnx", ("tf2onnx", "no ONNX for Cholesky; serve this model as SavedModel or TFLite, or write it"))
    of_tflite = lost("tflite", ("tflite", "no kernel for Cholesky; serve this model as SavedModel or ONNX"))
    quantised = lost("tflite:int8", ("tflite", "no kernel for Cholesky; serve this model as SavedModel or ONNX"))
    told = lines(ConvertResult((of_onnx, of_tflite), Path("out")))[3:-2]
    assert told == [
        "onnx: no ONNX for Cholesky; serve this model as SavedModel, or write it",
        "tflite: no kernel for Cholesky; serve this model as SavedModel",
    ]
    there = replace(of_tflite, path="model.tflite", bytes=9, status=Status.VERIFIED, tried=())
    assert (
        "  ".join(lines(ConvertResult((of_onnx, there, quantised), Path("out")))).count("SavedModel or TFLite, or") == 1
    )
    saved = lost("saved-model", ("lowering", "no operator"))
    assert lines(ConvertResult((saved, of_tflite), Path("out")))[4].endswith("serve this model as ONNX")


def test_of_several_models_each_has_its_name_before_its_causes() -> None:
    rows = (lost("onnx", ("a", "no operator"), ("b", "no route")), lost("tflite", ("a", "no operator")))
    made = ConvertResult(rows, Path("out"))
    done = tuple(ConvertedModel(name, f"net.py:{name}", Path("out"), made) for name in ("Large", "Small"))
    assert lines_of_all(ConvertManyResult(done, Path("out")))[5:-2] == [
        "Large: onnx, tflite: no operator",
        "  by b: no route",
        "Small: onnx, tflite: no operator",
        "  by b: no route",
    ]


def test_what_gave_no_answer_did_not_answer_wrongly() -> None:
    tried = (
        TriedRow(("a",), RouteStatus.WRONG, "at n=3: torch gave no answer to inputs that fit the signature: guard"),
        TriedRow(("b",), RouteStatus.WRONG, "agrees to 3 dB"),
        TriedRow(("b", "c"), RouteStatus.WRONG, "b: agrees to 3 dB"),
        TriedRow(("c",), RouteStatus.VERIFIED, "agrees to 140 dB"),
    )
    rows = [
        ArtifactRow(name, name, "fp32", name, "0" * 64, 9, Status.VERIFIED, ("c",), tried, 1.0, None, (1,))
        for name in ("onnx", "tflite")
    ]
    assert lines(ConvertResult(tuple(rows), Path("out")))[3:-2] == [
        f"onnx, tflite: passed over a, which does not answer: {tried[0].reason}",
        "onnx, tflite: passed over b, which answers wrongly: agrees to 3 dB",
    ]


def test_a_reduced_copy_says_what_it_stores() -> None:
    weights = (WeightsRow("int8", 4, 149_376), WeightsRow("float32", 6, 2_728))
    tried = (TriedRow(("c",), RouteStatus.VERIFIED, "agrees to 46 dB"),)
    row = ArtifactRow(
        "onnx:int8", "onnx", "int8", "p", "0" * 64, 9, Status.VERIFIED, ("c",), tried, 1.0, None, (1,), (), weights
    )
    line = lines(ConvertResult((row,), Path("out")))[0]
    assert line.endswith("c: agrees to 46 dB; weights: 4 int8 (149 KB), 6 float32 (2.73 KB)")
