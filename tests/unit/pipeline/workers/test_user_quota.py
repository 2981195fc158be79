"""All transload processes of a user share so many workers; a killed one frees its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.workers.user_quota import VARIABLE, UserQuota, quota_of_user
from transload.pipeline.workers.worker_slots import WorkerSlots

HOLDER = """
import sys
from pathlib import Path
from transload.pipeline.workers.user_quota import UserQuota
with UserQuota(Path(sys.argv[1]), 1).occupied():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_process_holds_the_slot_until_it_is_killed(tmp_path: Path) -> None:
    notes: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-P", "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"

        def note(text: str) -> None:
            notes.append(text)
            holder.kill()

        with UserQuota(tmp_path, 1, note).occupied():
            assert notes == [f"waiting for other transload processes of this user: {VARIABLE}=1"]
        with UserQuota(tmp_path, 1, note).occupied():
            assert len(notes) == 1


def test_threads_share_it_too_and_a_stopped_command_does_not_wait(tmp_path: Path) -> None:
    notes: list[str] = []
    quota = UserQuota(tmp_path, 2, notes.append)
    with quota.occupied(), quota.occupied():
        assert notes == []
        with quota.occupied(stopped=lambda: True):
            assert len(notes) == 1
    slots = WorkerSlots(3, quota=quota)
    slots.stop()
    with quota.occupied(), quota.occupied(), slots.occupied():
        assert len(notes) == 2


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        quota_of_user({VARIABLE: text}, print)
    assert str(caught.value) == (
        f"{VARIABLE}={text!r} is no number of workers\n  fix: set it to a number from 1, or unset it"
    )


def test_without_the_variable_there_is_no_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert quota_of_user({}, print) is None
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert quota_of_user({VARIABLE: "2"}, print) is not None
    folder = next(tmp_path.iterdir())
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(BadRequest, match="cannot hold the slots"):
        quota_of_user({VARIABLE: "2"}, print)
