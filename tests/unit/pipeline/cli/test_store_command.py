"""What `transload store` prints, and its exit statuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.models.store import Store
from transload.pipeline.cli import main
from transload.pipeline.cli.store import parse_age


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store: an artifact of a run, a step that `made` needed, and one that nothing uses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRANSLOAD_STORE", raising=False)
    for folder, name, size in (
        ("runs/one", "convert.onnx.a+b", 3000),
        ("made", "data", 2000),
        (None, "reference", 1000),
    ):
        if folder:
            Path(folder).mkdir(parents=True)
        store = Store(Path(".transload"), Path(folder) if folder else None, "net.py:Net")
        with store.workspace() as work:
            (work / "out").mkdir()
            (work / "out" / "file").write_bytes(bytes([size % 251]) * size)
            stored = store.commit(name.encode().hex().ljust(64, "0"), work / "out", {}, 1.0, step=name)
        if folder == "runs/one":
            Path(folder, "artifacts").mkdir()
            Path(folder, "artifacts", "onnx").symlink_to(Path("../../..") / stored.folder.relative_to(tmp_path))
        store.close()
    return tmp_path


def test_ls_says_what_each_is_and_who_uses_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "ls"]) == 0
    assert [re.split(r"  +", line) for line in capsys.readouterr().out.splitlines()] == [
        ["what", "model", "size", "last used", "used by"],
        ["artifact onnx (a > b)", "net.py:Net", "3 KB", "now", "runs/one (link)"],
        ["data", "net.py:Net", "2 KB", "now", "made"],
        ["reference answers", "net.py:Net", "1 KB", "now", "nothing"],
        [""],
        [".transload: 3 items, 6 KB: 3 KB linked by runs, 2 KB steps of folders that are there, 1 KB used by nothing"],
    ]


def test_ls_shows_the_largest_and_counts_the_rest(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "ls", "--rows", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("artifact onnx")
    assert lines[2] == "and 2 smaller ones ('--rows 0' lists all)"
    assert main(["store", "ls", "--rows", "0"]) == 0
    assert "smaller ones" not in capsys.readouterr().out


def test_ls_as_json_is_alone_on_stdout(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "ls", "--json"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert said.err == ""
    assert document["bytes"] == 6000
    row = next(row for row in document["items"] if row["what"] == "data")
    assert (row["kind"], row["bytes"], row["model"]) == ("object", 2000, "net.py:Net")
    assert row["users"] == [{"kind": "step", "folder": str(place / "made")}]


def test_gc_removes_what_nothing_uses_and_says_what_more_there_is(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "gc", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "reference answers  net.py:Net  1 KB  now        nothing" in said
    assert "would remove 1 item, 1 KB; left: 5 KB in .transload" in said
    assert main(["store", "gc"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "removed 1 item, 1 KB; left: 5 KB in .transload",
        "2 KB of it are steps of folders that are there: remove those folders, or name a size with --limit",
    ]
    assert main(["store", "gc", "--limit", "0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["removed_bytes"], document["left_bytes"]) == (2000, 3000)


def test_gc_spares_what_was_used_since(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "gc", "--older-than", "1d", "--limit", "0"]) == 0
    assert "removed 0 items" in capsys.readouterr().out


def test_verify_ends_with_1_until_it_is_repaired(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "verify", "-q"]) == 0
    capsys.readouterr()
    (place / "runs" / "one" / "artifacts" / "onnx" / "file").write_text("edited")
    assert main(["store", "verify", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["exit_code"], document["checked"], len(document["broken"])) == (1, 3, 1)
    assert document["broken"][0]["what"] == "artifact onnx (a > b)"
    assert main(["store", "verify", "--repair"]) == 0
    assert ".transload: 3 objects, 6 KB: all sound; 1 broken removed" in capsys.readouterr().out
    assert main(["store", "verify"]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["ls", "--store", "nowhere"], "error: there is no store at nowhere\n  fix: name its folder with --store\n"),
        (["gc", "--limit", "much"], "error: 'much' is no size\n  fix: write it as in 10GB, 500MB or 2GiB\n"),
        (["gc", "--older-than", "old"], "error: 'old' is no age\n  fix: write it as in 30d, 12h or 2w\n"),
        (
            ["gc", "--dryrun"],
            "error: transload store gc has no option --dryrun\n"
            "  fix: did you mean --dry-run? 'transload store gc --help' lists them\n",
        ),
    ],
)
def test_wrong_use_is_two_lines(
    place: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", *words]) == 2
    assert capsys.readouterr() == ("", sentence)


def test_the_group_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store"]) == 0
    assert "verify" in capsys.readouterr().out


def test_ages() -> None:
    assert [parse_age(text) for text in (None, "30d", "1.5h", "2w")] == [0.0, 30 * 86400, 5400, 14 * 86400]
    with pytest.raises(BadRequest, match="is no age"):
        parse_age("30")
