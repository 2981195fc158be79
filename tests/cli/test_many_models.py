"""A models file: one table, one report, the worst exit status; a kill loses nothing of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from .test_several import NETS, family

PROGRAM = (sys.executable, "-P", "-m", "transload")
LIST = """
[defaults]
to = ["torchscript"]
inputs = ["x=float32[batch,7]"]

[[model]]
source = "nets.py:Small"

[[model]]
name = "broken"
source = "nets.py:broken"

[[model]]
name = "large"
source = "nets.py:Large"
"""


def run(here: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*PROGRAM, *words], cwd=here, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == status, done.stderr + done.stdout
    return done


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "models.toml").write_text(LIST)
    return tmp_path


@pytest.mark.slow
def test_a_list_has_one_table_and_one_report_and_goes_on_where_it_was(here: Path) -> None:
    words = ("convert", "models.toml", "--out", "made", "--quiet")
    done = run(here, *words, "--junit", "rows.xml", status=2)
    cases = ET.fromstring((here / "rows.xml").read_bytes()).iter("testcase")  # noqa: S314  (it was written here)
    assert [(case.get("name"), case[0].tag) for case in cases] == [
        ("nets-Small: torchscript", "system-out"), ("large: torchscript", "system-out"), ("broken", "failure"),
    ]  # fmt: skip
    assert [line.split()[:3] for line in done.stdout.splitlines()[:4]] == [
        ["model", "target", "status"], ["nets-Small", "torchscript", "verified"], ["broken", "\N{EN DASH}", "failed"],
        ["large", "torchscript", "verified"],
    ]  # fmt: skip
    assert "1 model, bad input: load the model: " in done.stdout
    assert done.stdout.splitlines()[-1] == (
        "FAIL  2 of 3 models pass, 1 fail; 2 of 2 targets verified, in made (made/index.html)"
    )
    record = json.loads((here / "made" / "models.json").read_text())
    assert [(row["name"], row["verdict"], row["exit_code"]) for row in record["models"]] == [
        ("nets-Small", "pass", 0), ("broken", "fail", 2), ("large", "pass", 0),
    ]  # fmt: skip
    assert [(cause["kind"], [place["model"] for place in cause["places"]]) for cause in record["causes"]] == [
        ("bad input", ["broken"]),
    ]  # fmt: skip
    (here / "nets.py").write_text(NETS.replace('raise RuntimeError("no such checkpoint")', "return Small()"))
    (here / "models.toml").write_text(LIST.replace("large", "broad"))
    again = json.loads(run(here, *words, "--resume", "--json").stdout)
    assert [(row["name"], row["verdict"]) for row in again["models"]] == [
        ("nets-Small", "pass"), ("broken", "pass"), ("broad", "pass"),
    ]  # fmt: skip
    assert again["causes"] == []


def test_wrong_words_are_sentences(here: Path) -> None:
    for words, said in (
        (
            ("convert", "nets.py:Small", "models.toml", "--out", "o"),
            "error: models.toml is a list of models of its own\n",
        ),
        (("convert", "nets.py:Small", "--out", "o", "--resume"), "error: --resume is for a models file\n"),
        (("convert", "models.toml", "--out", "o", "--weights", "w"), "error: --weights is for one model\n"),
        (("convert", "models.toml"), "error: nothing says where to put what is made\n"),
        (("validate", "nets.py:Small"), "error: nothing says what nets.py:Small was made from: "),
        (("convert", "none.toml", "--out", "o"), "error: none.toml cannot be read: No such file or directory\n"),
    ):
        assert run(here, *words, status=2).stderr.startswith(said)


@pytest.mark.slow
def test_a_list_that_was_killed_goes_on_with_what_is_left(here: Path) -> None:
    (here / "models.toml").write_text(LIST.replace("nets.py:broken", "nets.py:Large"))
    words = ("convert", "models.toml", "--out", "made", "--jobs", "1", "--quiet")
    process = subprocess.Popen([*PROGRAM, *words], cwd=here)
    record, deadline = here / "made" / "nets-Small" / "model.json", time.monotonic() + 300
    while not record.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = family(process.pid) - {process.pid}
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    finished = record.read_bytes()
    done = run(here, *words[:-1], "--resume")
    assert "note: 1 of 3 models are done already" in done.stderr
    assert "nets-Small  " not in done.stderr, "what is done is not walked again"
    assert record.read_bytes() == finished
    assert done.stdout.splitlines()[-1].startswith("PASS  3 of 3 models pass; 3 of 3 targets verified")
    assert "note: 3 of 3 models are done already" in run(here, *words[:-1], "--resume").stderr


@pytest.mark.slow
def test_an_interrupt_leaves_a_whole_table(here: Path) -> None:
    (here / "models.toml").write_text(LIST.replace("nets.py:broken", "nets.py:Large"))
    words = ("convert", "models.toml", "--out", "made", "--jobs", "1")
    process = subprocess.Popen([*PROGRAM, *words], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    record, deadline = here / "made" / "nets-Small" / "model.json", time.monotonic() + 300
    while not record.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    while not any((here / "made" / "broken").glob("logs/*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    rows = [line.split()[:3] for line in out.splitlines()[1:4]]
    assert rows[0] == ["nets-Small", "torchscript", "verified"]
    assert rows[1] == ["broken", "\N{EN DASH}", "stopped"]
    assert rows[2] == ["large", "\N{EN DASH}", "not"]
    assert "models left: 2; the same command with --resume goes on with them" in out
