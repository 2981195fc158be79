"""The table of settings agrees with the sessions, and refuses what no session takes."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from transload.models.errors import BadRequest
from transload.serving.runtimes.runtime_table import RUNTIMES
from transload.serving.runtimes.tuning_space import SPACES, THREADS, RuntimeSettings, settings_text


@pytest.mark.parametrize("runtime", SPACES)
def test_every_setting_is_a_keyword_of_its_session_with_the_same_default(runtime: str) -> None:
    module, _, name = RUNTIMES[runtime].entry.partition(":")
    parameters = inspect.signature(getattr(import_module(module), name)).parameters
    defaults = {
        name: parameter.default for name, parameter in parameters.items() if parameter.default is not parameter.empty
    }
    assert {setting.name: setting.default for setting in SPACES[runtime] if setting.name != THREADS} == defaults


def test_what_is_tried_is_accepted_and_no_default() -> None:
    for runtime, space in SPACES.items():
        for setting in space:
            RuntimeSettings(runtime, {setting.name: setting.default})
            for value in setting.candidates("cpu", 4):
                RuntimeSettings(runtime, {setting.name: value})
            assert setting.name == THREADS or setting.default not in setting.candidates("cpu", 4)


@pytest.mark.parametrize(
    ("runtime", "settings", "what", "fix"),
    [
        ("tflite-flex", {"warp": 1}, "tflite-flex has no setting 'warp'", "use threads"),
        ("oip-grpc", {"threads": 2}, "oip-grpc has no setting 'threads'", "leave it out: it has no settings"),
        ("torch", {"onednn": "on"}, "torch takes no onednn='on'", "use False, True"),
        ("torch", {"onednn": 1}, "torch takes no onednn=1", "use False, True"),
        ("torch", {"threads": True}, "torch takes no threads=True", "use a whole number from 1 to 1024"),
        ("torch", {"threads": 0}, "torch takes no threads=0", "use a whole number from 1 to 1024"),
    ],
)
def test_a_setting_that_no_session_takes_is_refused(
    runtime: str, settings: dict[str, int], what: str, fix: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        RuntimeSettings(runtime, settings)
    assert (refused.value.what, refused.value.fix) == (what, fix)


def test_threads_are_no_keyword_and_hold_before_the_request() -> None:
    settings = RuntimeSettings("onnxruntime", {"threads": 4, "allow_spinning": False})
    assert (settings.threads(1), settings.keywords) == (4, {"allow_spinning": False})
    assert RuntimeSettings("onnxruntime").threads(3) == 3


def test_threads_are_tried_in_powers_of_two_up_to_all_cores() -> None:
    threads = next(setting for setting in SPACES["torch"] if setting.name == THREADS)
    assert threads.candidates("cpu", 6) == (1, 2, 4, 6)
    assert threads.candidates("cuda:0", 6) == ()


def test_only_what_a_library_reads_as_it_is_imported_needs_a_new_process() -> None:
    assert RuntimeSettings("tensorflow", {"onednn": "off"}).needs_new_process
    assert not RuntimeSettings("tensorflow", {"inter_threads": 2}).needs_new_process


def test_settings_are_read_as_words() -> None:
    assert settings_text({"threads": 2, "io_binding": True}) == "threads=2 io_binding=true"
    assert settings_text({}) == "default"
