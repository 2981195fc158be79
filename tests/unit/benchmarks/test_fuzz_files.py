"""The fuzzer of files: cases repeat, every kind of fault is found, and the process that it dies of is noted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
HOME = ROOT / "benchmarks" / "fuzz" / "files"
PLANTED = """
import os, sys, json
from pathlib import Path
from case_process import CaseRunner, rng_of
from readers import Reader
from transload.models.errors import BadRequest

def fault(number):
    def read(folder):
        text = (folder / "file").read_text()
        match number:
            case 0: return text
            case 1: raise BadRequest("no", fix="yes")
            case 2: raise KeyError(text)
            case 3: raise BadRequest("no", fix="")
            case 4: (folder.parent / "left").write_text("x")
            case 5: os.system("true")
            case 6: raise EOFError
            case 7: (folder.parent / "private" / "temporary").write_text("x")
            case 8: Path("within").write_text("x")
    return read

def write(rng, seeds, folder):
    (folder / "file").write_text(str(rng.random()))

rows = []
for number in range(9):
    runner = CaseRunner(Reader("r", "plain", write, fault(number), 1, (EOFError,)), 1, Path(), Path(sys.argv[1]))
    outcome, found = runner.run(7)
    rows.append([outcome.name, found.get("error", "")])
print(json.dumps(rows))
"""


def run(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "typings"), str(HOME)])
    environment = {**os.environ, "PYTHONPATH": path, **more}
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, check=False, timeout=100
    )


def test_each_kind_of_fault_is_a_finding(tmp_path: Path) -> None:
    done = run("-c", PLANTED, str(tmp_path))
    outcomes = json.loads(done.stdout)
    names = [outcome for outcome, _ in outcomes]
    assert names == ["ACCEPTED", "REFUSED", *["FINDING"] * 4, "REFUSED", "FINDING", "ACCEPTED"], done.stderr
    said = [error for _, error in outcomes if error]
    assert [text.split(" ")[0] for text in said] == ["KeyError:", "no", "left", "left", "left"]


def test_a_case_depends_on_seed_reader_and_number_alone(tmp_path: Path) -> None:
    (tmp_path / "seeds").mkdir()
    script = """
import sys, hashlib
from pathlib import Path
from case_process import rng_of
from container_mutations import mutate_member, mutate_zip, pack
from byte_mutations import mutate_json, mutate_protobuf
archive = pack([("a/data.pkl", b"x" * 50), ("a/code.py", b"def f(): pass"), ("a/b.json", b'{"a": [1, {"b": null}]}')])
for number in range(200):
    rng = rng_of(3, "r", number)
    made = mutate_zip(rng, archive, mutate_member)
    made += mutate_json(rng, b'{"a": [1, "b"]}') + mutate_protobuf(rng, archive)
    print(hashlib.sha256(made).hexdigest())
"""
    first, second = (run("-c", script, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first.stdout == second.stdout, first.stderr
    assert len(set(first.stdout.split())) > 190


def test_a_member_is_changed_behind_its_checksum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HOME))
    from case_process import rng_of  # type: ignore[import-not-found]
    from container_mutations import mutate_zip, pack  # type: ignore[import-not-found]

    archive = pack([("a", b"1" * 20), ("b", b"2" * 20)])
    contents = set()
    for seed in range(100):
        changed = mutate_zip(rng_of(seed, "r", 0), archive, lambda rng, _, content: content[:-1] + b"!")
        try:
            with zipfile.ZipFile(BytesIO(changed)) as packed:
                contents |= {packed.read(name) for name in packed.namelist()}
        except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError, RuntimeError, EOFError):
            continue
    assert b"1" * 19 + b"!" in contents
    for name in ("case_process", "container_mutations", "byte_mutations"):
        sys.modules.pop(name, None)


def test_the_cases_of_all_readers_are_as_many_as_asked_and_a_death_is_noted(tmp_path: Path) -> None:
    """A run of few cases, one of whose readers dies: the case that it died of is a finding, and the others go on."""
    script = f"""
import runpy, sys, json
from pathlib import Path
sys.argv = ["x"]
main = runpy.run_path({str(HOME)!r} + "/__main__.py", run_name="fuzz")
counts = [task.count for task in main["tasks_of"](20_001)]
task = main["Task"]("--input", 300, "reader")
folder = Path({str(tmp_path)!r})
(folder / "seeds").mkdir()
watch = main["Watch"](task, 1, folder, folder / "seeds")
watch._note(299, "the process ended with -11", main["Outcome"].FINDING)
watch.run(90)
print(json.dumps([sum(counts), min(counts), watch.result()]))
"""
    done = run("-c", script)
    total, least, result = json.loads(done.stdout)
    assert total == 20_001
    assert least >= 1, "no reader is left out"
    assert result["cases"] == 300, done.stderr
    assert result["findings"] == [{"what": "the process ended with -11", "cases": 1, "numbers": [299]}]
    assert result["finding"] == 1
    assert result["accepted"] + result["refused"] == 299
