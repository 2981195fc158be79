"""What stands beside a payload: it can be read again, and tells whether a file has changed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from transload.models.artifact import DIGESTS
from transload.models.errors import BadRequest, Exit
from transload.pipeline.cli.inspect import _artifact_lines
from transload.pipeline.commands.inspect import InspectedArtifact, inspect
from transload.pipeline.progress.progress import Progress
from transload.pipeline.show.card.card_folder import DigestCheck, check_digests, write_card
from transload.pipeline.show.card.card_records import read_card

from .card_samples import write_folder


def look(folder: Path) -> InspectedArtifact:
    result = inspect(str(folder), Progress(quiet=True))
    assert isinstance(result, InspectedArtifact)
    return result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of an artifact with its card."""
    write_card(tmp_path / "onnx", write_folder(tmp_path / "onnx"))
    return tmp_path / "onnx"


def test_a_card_is_read_as_it_was_written(folder: Path, tmp_path: Path) -> None:
    assert read_card(folder) == write_folder(folder)
    assert read_card(tmp_path) is None
    assert (folder / "requirements.txt").read_text() == "onnxruntime==1.31.1\n"


def test_the_list_of_digests_is_one_that_sha256sum_takes(folder: Path) -> None:
    (folder / "a\\b\nc").write_text("a name that sha256sum escapes")
    write_card(folder, write_folder(folder))
    done = subprocess.run(
        ["sha256sum", "-c", "--strict", DIGESTS], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert check_digests(folder) == DigestCheck(files=6)


def test_what_belongs_to_this_machine_has_no_digest(folder: Path) -> None:
    (folder / "tuning.json").write_text("{}")
    assert check_digests(folder) == DigestCheck(files=5)


def test_files_that_changed_are_named_and_end_in_1(folder: Path) -> None:
    assert look(folder).status is Exit.PASS
    assert "5 files are as SHA256SUMS lists them" in list(_artifact_lines(look(folder)))
    (folder / "README.md").write_text("other words")
    (folder / "requirements.txt").unlink()
    (folder / "mine.txt").touch()
    expected = DigestCheck(5, changed=("README.md",), missing=("requirements.txt",), unlisted=("mine.txt",))
    assert check_digests(folder) == expected
    result = look(folder)
    assert (result.status, result.document["exit_code"]) == (Exit.FAIL, 1)
    assert list(_artifact_lines(result))[-3:] == [
        "CHANGED  README.md", "MISSING  requirements.txt", "not listed in SHA256SUMS: mine.txt",
    ]  # fmt: skip


def test_another_payload_is_found_by_the_card_even_where_the_list_was_written_anew(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"another model")
    digests = subprocess.run(
        ["sha256sum", "README.md", "artifact.json", "card.json", "model.onnx"],
        cwd=folder,
        capture_output=True,
        check=True,
    )
    (folder / DIGESTS).write_bytes(digests.stdout)
    result = look(folder)
    assert result.status is Exit.FAIL
    assert list(_artifact_lines(result))[-1] == "CHANGED  model.onnx is not the one that the card describes"


def test_a_person_reads_the_facts_of_the_card(folder: Path) -> None:
    lines = dict(line.split(":", 1) for line in _artifact_lines(look(folder)) if ":" in line)
    facts = {name: text.strip() for name, text in lines.items()}
    assert facts["artifact"] == "net.py:Net as onnx"
    assert facts["commit"] == f"{'c' * 40}, with changes since in net.py"
    assert facts["labels"] == "0 = cat, 1 = dog"
    assert facts["made with"] == "transload 0.1.0, torch 2.13.0, onnx 1.23.2"


def test_a_folder_without_a_card_is_shown_by_its_record(tmp_path: Path) -> None:
    write_folder(tmp_path / "old")
    result = look(tmp_path / "old")
    assert (result.card, result.digests, result.status) == (None, None, Exit.PASS)
    assert "no SHA256SUMS: nothing tells whether a file has changed" in list(_artifact_lines(result))


@pytest.mark.parametrize(
    "line", ["nonsense", f"{'0' * 64}  ../../etc/passwd", f"{'0' * 64}  /etc/passwd", f"{'0' * 63}  a"]
)
def test_a_list_of_digests_that_is_none_is_refused(line: str, folder: Path) -> None:
    (folder / DIGESTS).write_text(f"{line}\n")
    with pytest.raises(BadRequest, match="SHA256SUMS cannot be read"):
        check_digests(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1}', '{"schema": 1, "bytes": "x"}'])
def test_a_card_that_is_none_is_refused_in_a_sentence(text: str, folder: Path) -> None:
    (folder / "card.json").write_text(text)
    with pytest.raises(BadRequest, match=r"card\.json cannot be read"):
        look(folder)


def test_the_document_of_an_artifact_is_json(folder: Path) -> None:
    document = json.loads(json.dumps(look(folder).document))
    assert document["card"]["model"]["labels"] == {"0": "cat", "1": "dog"}
    assert document["digests"] == {"files": 5, "changed": [], "missing": [], "unlisted": []}
