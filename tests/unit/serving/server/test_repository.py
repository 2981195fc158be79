"""Which version answers: policies, switches without a refused request, failures, labels, deaths."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.errors import BadRequest, StepFailed
from transload.serving.server.repository.model_config import ModelConfig, VersionPolicy
from transload.serving.server.repository.model_repository import Repository
from transload.serving.server.repository.served_version import OpenedSession
from transload.serving.server.repository.version_keeper import ModelState, VersionSource
from transload.serving.server.serving_error import Code, ServingError

FEEDS = {"x": np.ones((1, 2), np.float32)}


class Processes:
    """An opener of sessions without processes, whose deaths a test decides. `broken` versions cannot be loaded."""

    def __init__(self, make_session: Callable[[], Any]) -> None:
        self.make_session = make_session
        self.broken: set[int] = set()
        self.opened: list[tuple[VersionSource, Any, threading.Event]] = []
        self.sizes: dict[int, int] = {}
        self.go_on = threading.Event()
        self.go_on.set()
        self.bytes = 100 << 20  # of the next process

    def open(self, source: VersionSource, lost: threading.Event) -> OpenedSession:
        self.go_on.wait(60)
        if source.number in self.broken:
            raise BadRequest(f"version {source.number} is broken", fix="mend it")
        session = self.make_session()
        self.opened.append((source, session, lost))
        self.sizes[id(session)] = self.bytes
        size = lambda: self.sizes[id(session)]  # noqa: E731
        return OpenedSession(session, "numpy", lost, lambda: "it was killed", resident_bytes=size)


@pytest.fixture
def processes(one_session: Callable[[], Any]) -> Processes:
    return Processes(one_session)


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def repository(processes: Processes, warnings: list[str]) -> Iterator[Repository]:
    held = Repository(processes.open, warn=warnings.append)
    yield held
    processes.go_on.set()
    held.close()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for number in (1, 2, 10):
        add_version(tmp_path / "m", number)
    (tmp_path / "m" / "tmp").mkdir()
    return tmp_path / "m"


def add_version(base: Path, number: int) -> None:
    (base / str(number)).mkdir(parents=True)
    (base / str(number) / "artifact.json").touch()


def states(repository: Repository, name: str = "m") -> dict[int, ModelState]:
    return {status.number: status.state for status in repository.statuses(name)}


@pytest.mark.parametrize(
    ("policy", "numbers"),
    [
        (VersionPolicy(), {10}),
        (VersionPolicy(latest=2), {2, 10}),
        (VersionPolicy(is_all=True), {1, 2, 10}),
        (VersionPolicy(specific=(1,)), {1}),
    ],
)
def test_the_policy_chooses_and_the_latest_answers(
    policy: VersionPolicy, numbers: set[int], repository: Repository, base: Path
) -> None:
    repository.apply([ModelConfig("m", base, policy)])
    assert states(repository) == dict.fromkeys(sorted(numbers, reverse=True), ModelState.AVAILABLE)
    assert repository.find("m").number == max(numbers)
    for number in numbers:
        assert repository.find("m", number).predict(FEEDS)["y"].tolist() == [[2, 2]]
    with pytest.raises(ServingError, match=r"Servable not found for request: Specific\(m, 7\)") as caught:
        repository.find("m", 7)
    assert caught.value.code is Code.NOT_FOUND


def test_a_new_version_takes_over_when_it_answers(
    repository: Repository, base: Path, processes: Processes, until: Callable[..., None]
) -> None:
    repository.apply([ModelConfig("m", base)])
    processes.go_on.clear()
    add_version(base, 11)
    repository.refresh()
    until(lambda: states(repository)[11] is ModelState.LOADING)
    assert repository.find("m").number == 10
    with repository.admission.counted():
        earlier = repository.find("m")
        processes.go_on.set()
        until(lambda: repository.find("m").number == 11)
        until(lambda: states(repository)[10] is ModelState.UNLOADING)
        assert earlier.predict(FEEDS)["y"].tolist() == [[2, 2]]  # it was found before the switch
        assert states(repository)[10] is ModelState.UNLOADING
    until(lambda: states(repository) == {11: ModelState.AVAILABLE, 10: ModelState.END})
    assert [session.released for _, session, _ in processes.opened] == [True, False]


def test_a_version_that_cannot_be_loaded_is_never_switched_to(
    repository: Repository, base: Path, processes: Processes, warnings: list[str], until: Callable[..., None]
) -> None:
    repository.apply([ModelConfig("m", base)])
    processes.broken = {11}
    add_version(base, 11)
    repository.refresh()
    until(lambda: warnings)
    assert warnings == ["version 11 of the model m is not served: version 11 is broken; mend it"]
    repository.refresh()
    assert states(repository) == {11: ModelState.END, 10: ModelState.AVAILABLE}
    assert repository.find("m").number == 10
    with pytest.raises(BadRequest, match="version 11 is broken"):
        repository.apply([ModelConfig("m", base)])
    assert repository.find("m").number == 10


def test_a_version_that_was_deleted_is_taken_out_though_the_others_are_broken(
    repository: Repository, base: Path, processes: Processes, until: Callable[..., None]
) -> None:
    repository.apply([ModelConfig("m", base)])
    processes.broken = {2}
    shutil.rmtree(base / "1")
    repository.refresh()
    assert repository.find("m").number == 10
    shutil.rmtree(base / "10")
    repository.refresh()  # 2 is tried
    until(lambda: states(repository)[2] is ModelState.END)
    until(lambda: states(repository)[10] is ModelState.END)
    with pytest.raises(ServingError, match="Servable not found"):
        repository.find("m")


def test_a_version_that_was_deleted_answers_until_another_is_loaded(
    repository: Repository, base: Path, processes: Processes, until: Callable[..., None]
) -> None:
    repository.apply([ModelConfig("m", base)])
    processes.go_on.clear()
    shutil.rmtree(base / "10")
    repository.refresh()
    until(lambda: states(repository)[2] is ModelState.LOADING)
    assert repository.find("m").number == 10
    processes.go_on.set()
    until(lambda: repository.find("m").number == 2)


def test_a_model_none_of_whose_folders_is_there_is_served_on(repository: Repository, base: Path) -> None:
    repository.apply([ModelConfig("m", base)])
    base.rename(base.with_name("unmounted"))
    repository.refresh()
    assert repository.find("m").number == 10


def test_a_version_that_is_being_written_waits(processes: Processes, base: Path, until: Callable[..., None]) -> None:
    repository = Repository(processes.open, still_s=0.3)
    repository.apply([ModelConfig("m", base)])
    add_version(base, 11)
    repository.refresh()
    assert set(states(repository)) == {10}
    os.utime(base / "11" / "artifact.json", (0, 0))  # as a copy that keeps its times does
    repository.refresh()
    assert set(states(repository)) == {10}

    def is_loaded() -> bool:
        repository.refresh()
        return repository.find("m").number == 11

    until(is_loaded)
    repository.close()


def test_a_version_that_appears_while_others_are_asked_for_does_no_harm(
    repository: Repository, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Repository._start

    def start_late(*arguments: Any) -> Any:
        (base / "12").mkdir(exist_ok=True)
        (base / "12" / "artifact.json").touch()
        return start(*arguments)

    monkeypatch.setattr(Repository, "_start", start_late)
    repository.apply([ModelConfig("m", base)])
    assert repository.find("m").number == 10


def test_one_call_rolls_back_and_labels_follow(repository: Repository, base: Path, until: Callable[..., None]) -> None:
    repository.apply([ModelConfig("m", base)])
    back = ModelConfig("m", base, VersionPolicy(specific=(2,)), {"stable": 2})
    repository.apply([back])
    until(lambda: states(repository) == {10: ModelState.END, 2: ModelState.AVAILABLE})
    assert repository.find("m").number == repository.find("m", label="stable").number == 2
    assert [status.number for status in repository.statuses("m", label="stable")] == [2]
    with pytest.raises(ServingError, match="Unrecognized servable version label: canary"):
        repository.find("m", label="canary")
    with pytest.raises(ServingError, match="unavailable version of model m: label canary, version 10"):
        repository.apply([ModelConfig("m", base, VersionPolicy(specific=(2,)), {"canary": 10})])


def test_models_are_unloaded_and_loaded_by_name(
    repository: Repository, base: Path, tmp_path: Path, until: Callable[..., None]
) -> None:
    add_version(tmp_path / "other", 1)
    repository.apply([ModelConfig("m", base), ModelConfig("o", tmp_path / "other")])
    assert repository.is_available
    repository.unload("o")
    until(lambda: states(repository, "o") == {1: ModelState.END})
    with pytest.raises(ServingError, match=r"Servable not found for request: Latest\(o\)"):
        repository.find("o")
    assert repository.find("m").number == 10
    repository.load("o")
    assert repository.find("o").number == 1
    repository.load("m", VersionPolicy(specific=(1,)))
    until(lambda: repository.find("m").number == 1)
    with pytest.raises(ServingError, match="Could not find any versions of model p"):
        repository.load("p")


def test_a_model_that_is_loaded_while_it_is_unloaded_answers(repository: Repository, base: Path) -> None:
    repository.apply([ModelConfig("m", base)])
    with repository.admission.counted():  # a request under way, for which what is taken out waits
        repository.unload("m")
        assert states(repository) == {10: ModelState.UNLOADING}
        repository.load("m")
        assert repository.find("m").number == 10


def test_a_server_goes_on_without_models_after_the_last_was_unloaded(
    repository: Repository, base: Path, until: Callable[..., None]
) -> None:
    repository.apply([ModelConfig("m", base)])
    repository.unload("m")
    until(lambda: set(states(repository).values()) == {ModelState.END})
    assert not repository.is_over
    repository.load("m")
    assert repository.find("m").number == 10


def test_a_request_reaches_no_folder_that_the_operator_has_not_named(
    repository: Repository, base: Path, tmp_path: Path
) -> None:
    repository.apply([ModelConfig("m", base)])
    add_version(tmp_path / "secret", 1)
    for folder in (tmp_path / "secret", base / ".." / "secret", base / "1", Path("/\0"), Path("/" + "m" * 5000)):
        with pytest.raises(ServingError, match="the base_path of the model m is none that the server was started with"):
            repository.apply_request([ModelConfig("m", folder)])
    repository.apply_request([ModelConfig("n", base / "." / ".." / "m")])
    assert repository.find("n").number == 10


def test_a_client_that_gives_a_model_the_folder_of_another_can_give_it_back(
    repository: Repository, base: Path, tmp_path: Path
) -> None:
    add_version(tmp_path / "n", 7)
    configs = [ModelConfig("m", base), ModelConfig("n", tmp_path / "n")]
    repository.apply(configs)
    repository.apply_request([ModelConfig("m", tmp_path / "n")])
    repository.apply_request(configs)
    assert repository.find("m", 10).number == 10
    assert repository.find("n").number == 7


@pytest.mark.parametrize("name", ["", "a/b", "../m", "a\nb", "é" * 65, "x" * 129])
def test_a_client_names_no_model_as_no_file_can_be_named(name: str, repository: Repository, base: Path) -> None:
    repository.apply([ModelConfig("m", base)])
    with pytest.raises(ServingError, match="a model's name has letters"):
        repository.apply_request([ModelConfig(name, base)])
    assert repository.find("m").number == 10


@pytest.mark.parametrize(
    ("policy", "words"), [(VersionPolicy(specific=(3,)), "has no version 3 of the model m"), (VersionPolicy(), None)]
)
def test_a_model_without_versions_is_refused(
    policy: VersionPolicy, words: str | None, repository: Repository, base: Path, tmp_path: Path
) -> None:
    folder = base if words else tmp_path
    with pytest.raises(BadRequest, match=words or "holds no model"):
        repository.apply([ModelConfig("m", folder, policy)])


def test_a_version_whose_process_dies_is_opened_again_until_the_third_death(
    repository: Repository, base: Path, processes: Processes, warnings: list[str], until: Callable[..., None]
) -> None:
    repository.apply([ModelConfig("m", base)])
    processes.go_on.clear()
    processes.opened[-1][2].set()
    until(lambda: warnings)
    assert warnings == ["version 10 of the model m died and is started again: it was killed"]
    with pytest.raises(ServingError, match="ended, and is started again") as caught:
        repository.find("m")
    assert caught.value.code is Code.UNAVAILABLE
    processes.go_on.set()
    until(lambda: len(warnings) == 2)
    assert repository.find("m").predict(FEEDS)["y"].tolist() == [[2, 2]]
    for count in (2, 3):
        until(lambda: states(repository)[10] is ModelState.AVAILABLE)
        assert len(processes.opened) == count
        processes.opened[-1][2].set()
        until(lambda before=count: len(processes.opened) > before or states(repository)[10] is ModelState.END)
    assert repository.is_over
    (status,) = repository.statuses("m")
    assert isinstance(status.failure, StepFailed)
    assert status.failure.what == ("the process of version 10 of the model m died 3 times within 60 s: it was killed")


def test_a_request_of_a_process_that_ends_is_unavailable(
    repository: Repository, base: Path, processes: Processes
) -> None:
    repository.apply([ModelConfig("m", base)])
    _, session, lost = processes.opened[-1]

    def die() -> None:
        lost.set()
        raise OSError("broken pipe")

    session.act = die
    with pytest.raises(ServingError, match="the process of the model m ended") as caught:
        repository.find("m").predict(FEEDS)
    assert caught.value.code is Code.UNAVAILABLE


def test_a_load_that_fails_does_not_end_the_server(
    repository: Repository, base: Path, processes: Processes, until: Callable[..., None]
) -> None:
    repository.apply([ModelConfig("m", base)])
    repository.unload("m")
    until(lambda: states(repository)[10] is ModelState.END)
    processes.broken = {10}
    with pytest.raises(BadRequest, match="version 10 is broken"):
        repository.load("m")
    assert not repository.is_over
    processes.broken = set()
    repository.load("m")
    assert repository.find("m").number == 10


def test_a_process_that_keeps_the_memory_of_large_requests_is_replaced(
    repository: Repository, processes: Processes, base: Path, warnings: list[str], until: Any
) -> None:
    repository.apply([ModelConfig("m", base)])
    before = repository.find("m")
    _, session, _ = processes.opened[0]
    repository.replace_grown()
    assert not warnings
    processes.sizes[id(session)] = 900 << 20
    before.last_large_at = time.monotonic()  # there may be more to come
    repository.replace_grown()
    assert not warnings
    before.last_large_at -= 60
    processes.go_on.clear()
    repository.replace_grown()
    assert repository.find("m") is before  # until the new one answers
    assert warnings == [
        "version 10 of the model m gets a new process: 944 MB after large requests, 105 MB when it was loaded"
    ]
    processes.go_on.set()
    until(lambda: session.released)
    after = repository.find("m")
    assert after is not before
    assert after.predict(FEEDS)["y"].tolist() == [[2, 2]]
    assert states(repository) == {10: ModelState.AVAILABLE}
    processes.sizes[id(processes.opened[1][1])] = 900 << 20
    repository.replace_grown()
    assert len(warnings) == 1  # not so soon again


def test_a_grown_process_is_kept_where_no_other_can_be_loaded(
    repository: Repository, processes: Processes, base: Path, warnings: list[str], until: Any
) -> None:
    repository.apply([ModelConfig("m", base)])
    served = repository.find("m")
    processes.sizes[id(processes.opened[0][1])] = 900 << 20
    processes.broken.add(10)
    repository.replace_grown()
    until(lambda: len(warnings) == 2)
    assert warnings[1] == "version 10 of the model m keeps its process: version 10 is broken"
    assert repository.find("m") is served
    assert states(repository) == {10: ModelState.AVAILABLE}


def test_an_error_that_nobody_foresaw_ends_the_version_and_not_its_thread_alone(base: Path, until: Any) -> None:
    def open_badly(source: VersionSource, lost: threading.Event) -> OpenedSession:
        raise OSError("File name too long")

    warnings: list[str] = []
    repository = Repository(open_badly, warn=warnings.append)
    with pytest.raises(StepFailed, match="OSError: File name too long"):
        repository.apply([ModelConfig("m", base)], timeout_s=60)
    assert states(repository) == {10: ModelState.END}
    until(lambda: warnings)
    assert warnings == ["version 10 of the model m is not served: OSError: File name too long"]
    repository.close()


def test_a_model_that_moves_to_another_folder_is_loaded_from_there(
    repository: Repository, processes: Processes, base: Path, tmp_path: Path, until: Any
) -> None:
    repository.apply([ModelConfig("m", base)])
    before = repository.find("m")
    add_version(tmp_path / "other", 10)
    repository.apply([ModelConfig("m", tmp_path / "other")])
    assert repository.find("m") is not before
    assert [source.folder for source, _, _ in processes.opened] == [base / "10", tmp_path / "other" / "10"]
    until(lambda: processes.opened[0][1].released)
    repository.refresh()
    assert len(processes.opened) == 2
    assert states(repository) == {10: ModelState.AVAILABLE}


def test_a_model_stays_where_it_is_if_the_other_folder_cannot_be_loaded(
    repository: Repository, processes: Processes, base: Path, tmp_path: Path
) -> None:
    repository.apply([ModelConfig("m", base)])
    before = repository.find("m")
    add_version(tmp_path / "other", 10)
    processes.broken = {10}
    with pytest.raises(BadRequest, match="version 10 is broken"):
        repository.apply([ModelConfig("m", tmp_path / "other")])
    repository.refresh()
    assert repository.find("m") is before
    processes.broken = set()
    repository.apply([ModelConfig("m", tmp_path / "other")])
    assert repository.find("m") is not before


def test_a_request_for_what_cannot_be_changes_nothing(repository: Repository, base: Path, tmp_path: Path) -> None:
    repository.apply([ModelConfig("m", base)])
    with pytest.raises(ServingError, match="label new, version 7"):
        repository.apply_request([ModelConfig("other", base, labels={"new": 7})])
    with pytest.raises(
        ServingError, match=r"Expected model other to have an absolute path or URI; got base_path\(\)=m"
    ):
        repository.apply_request([ModelConfig("other", Path("m"))])
    assert states(repository) == {10: ModelState.AVAILABLE}
    assert repository.names == ["m"]


def test_of_several_instances_the_idlest_answers_and_a_death_stops_no_other(
    processes: Processes, base: Path, warnings: list[str], until: Callable[..., None]
) -> None:
    repository = Repository(processes.open, instances=2, warn=warnings.append)
    try:
        repository.apply([ModelConfig("m", base)])
        first = repository.find("m")
        first._enter([])  # a request waits for it
        second = repository.find("m")
        assert second is not first
        assert states(repository) == {10: ModelState.AVAILABLE}
        lost = next(lost for _, session, lost in processes.opened if session is second._session)
        processes.go_on.clear()
        lost.set()
        until(lambda: repository.find("m") is first)
        assert states(repository) == {10: ModelState.AVAILABLE}
        assert repository.is_available
        processes.go_on.set()
        until(lambda: repository.find("m") not in {first, second})
        first._leave()
        assert len(processes.opened) == 3
        assert warnings[0] == "version 10 of the model m died and is started again: it was killed"
        repository.unload("m")
        until(lambda: states(repository) == {10: ModelState.END})
        with pytest.raises(ServingError, match="Servable not found"):
            repository.find("m")
    finally:
        repository.close()


def test_a_version_of_which_no_instance_can_be_opened_fails(processes: Processes, base: Path) -> None:
    processes.broken.add(10)
    repository = Repository(processes.open, instances=3)
    try:
        with pytest.raises(BadRequest, match="version 10 is broken"):
            repository.apply([ModelConfig("m", base)])
        assert states(repository) == {10: ModelState.END}
    finally:
        repository.close()
