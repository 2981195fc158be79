"""The commit of a file, as git itself made it, read without git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from transload.pipeline.show.card import git_commit
from transload.pipeline.show.card.card_records import CommitState
from transload.pipeline.show.card.git_commit import commit_of


def git(folder: Path, *words: str) -> str:
    names = {f"GIT_{who}_{what}": "test@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        environment.pop(name, None)
    done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with one commit of two files, one in a folder."""
    folder = tmp_path / "project"
    (folder / "models").mkdir(parents=True)
    (folder / "net.py").write_text("a = 1\n")
    (folder / "models" / "a-long-name-in-a-folder.py").write_text("b = 1\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.fixture(autouse=True)
def _look_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_commit, "_LOOK_AGAIN_S", 1e-9)


def test_many_models_of_a_repository_are_one_look_at_its_files(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_commit, "_LOOK_AGAIN_S", 1e9)
    known = commit_of(project / "net.py")
    assert known is not None
    monkeypatch.delattr(git_commit, "_read_index")
    assert commit_of(project / "models/a-long-name-in-a-folder.py") == known
    assert commit_of(project / "new.py") is None


def test_a_tracked_file_has_the_commit_that_is_checked_out(project: Path) -> None:
    expected = CommitState(commit=git(project, "rev-parse", "HEAD"), changed=())
    assert commit_of(project / "net.py") == commit_of(project / "models/a-long-name-in-a-folder.py") == expected


def test_another_time_alone_is_no_change_and_other_content_is_one(project: Path) -> None:
    os.utime(project / "net.py", (1, 1))
    known = commit_of(project / "net.py")
    assert known is not None
    assert known.changed == ()
    (project / "net.py").write_text("a = 2\n")  # as long as before
    os.utime(project / "net.py", (2, 2))
    (project / "models" / "a-long-name-in-a-folder.py").unlink()
    known = commit_of(project / "net.py")
    assert known is not None
    assert known.changed == ("models/a-long-name-in-a-folder.py", "net.py")


def test_a_file_in_conflict_is_changed_whichever_side_it_has(project: Path) -> None:
    for branch, text in (("other", "a = 2\n"), ("main", "a = 3\n")):
        git(project, "checkout", "-q", "-B", branch, *(["HEAD~1"] if branch == "main" else []))
        (project / "net.py").write_text(text)
        git(project, "commit", "-q", "-a", "-m", branch)
    with pytest.raises(subprocess.CalledProcessError):
        git(project, "merge", "other")
    for side in ("ours", "theirs"):
        git(project, "checkout", "-q", f"--{side}", "net.py")
        known = commit_of(project / "net.py")
        assert known is not None
        assert known.changed == ("net.py",)


@pytest.mark.parametrize("version", ["2", "4"])
def test_every_version_of_the_index_is_read(version: str, project: Path) -> None:
    for at in range(30):
        (project / "models" / f"net_{'x' * at}.py").write_text(f"{at}\n")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "more")
    git(project, "update-index", "--index-version", version)
    known = commit_of(project / "models" / "net_xxx.py")
    assert known == CommitState(commit=git(project, "rev-parse", "HEAD"), changed=())


def test_packed_references_and_worktrees_are_read(project: Path, tmp_path: Path) -> None:
    commit = git(project, "rev-parse", "HEAD")
    git(project, "pack-refs", "--all")
    assert commit_of(project / "net.py") == CommitState(commit=commit, changed=())
    git(project, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    assert commit_of(tmp_path / "tree" / "net.py") == CommitState(commit=commit, changed=())
    git(project, "checkout", "-q", "--detach")
    assert commit_of(project / "net.py") == CommitState(commit=commit, changed=())


def test_filters_leave_open_whether_a_file_has_changed(project: Path) -> None:
    (project / ".gitattributes").write_text("*.py text eol=crlf\n")
    known = commit_of(project / "net.py")
    assert known is not None
    assert known.changed is None


def test_what_git_does_not_track_has_no_commit(project: Path, tmp_path: Path) -> None:
    (project / "new.py").touch()
    assert commit_of(project / "new.py") is None
    (tmp_path / "alone.py").touch()
    assert commit_of(tmp_path / "alone.py") is None or not (tmp_path / ".git").exists()


@pytest.mark.parametrize("name", ["HEAD", "index"])
@pytest.mark.parametrize("content", [b"", b"ref: ../../../etc/passwd\n", b"DIRC\0\0\0\x02\0\0\0\xff", b"\xff" * 100])
def test_a_broken_repository_has_no_commit(name: str, content: bytes, project: Path) -> None:
    (project / ".git" / name).write_bytes(content)
    assert commit_of(project / "net.py") is None


def test_nothing_that_the_repository_configures_is_run(project: Path) -> None:
    """Git itself would run it: `git status` asks core.fsmonitor."""
    spy = project / "ran"
    git(project, "config", "core.fsmonitor", f"touch {spy}; false")
    (project / "net.py").write_text("a = 2\n")
    assert commit_of(project / "net.py") is not None
    assert not spy.exists()
