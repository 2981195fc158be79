"""The progress of commands: a line that lives on a terminal and leaves nothing behind, plain lines elsewhere."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import termios
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transload.pipeline.plan.run_plan import action_name, plan_routes
from transload.pipeline.progress import progress as progress_module
from transload.pipeline.progress.live_line import MovingStage, live_text, name_of_model, name_of_step
from transload.pipeline.progress.progress import Progress
from transload.pipeline.progress.terminal_text import columns_of, fit_terminal, wrap_words
from transload.pipeline.progress.timeline import Timeline

CLEAR = "\r\x1b[K"


class TerminalScreen:
    """A pseudo terminal of so many columns, and what was written to it."""

    def __init__(self, columns: int) -> None:
        self._reader, writer = pty.openpty()
        self.resize(columns)
        self.stream = os.fdopen(writer, "w", encoding="utf-8")

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self._reader, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def written(self) -> str:
        """Return all that was written, and close the terminal."""
        self.stream.close()
        text = b""
        while True:
            try:
                part = os.read(self._reader, 65536)
            except OSError:  # its other end is closed
                break
            text += part
        os.close(self._reader)
        return text.decode().replace("\r\n", "\n")


def left(written: str) -> str:
    """Return what stays on the screen: each CLEAR removes the line before it."""
    return re.sub(r"[^\n]*" + re.escape(CLEAR), "", written)


def pictures(written: str) -> list[str]:
    """Return the live lines that were shown, one after the other."""
    shown = [part.partition("\n")[0] for part in written.split(CLEAR)[1:]]
    return [text for text in shown if text[:2].strip("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏") == " "]


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_module, "_TICK_S", 0.005)


def wait_for(condition: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(2000):
        if condition():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not happen")


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("columns", [80, 60, 40, 22])
def test_the_live_line_fits_and_leaves_nothing_but_finished_lines(columns: int) -> None:
    screen, steps = TerminalScreen(columns), Timeline()
    progress = Progress(screen.stream)
    progress.follow(steps, "/home/me/a folder/digits.py:Net")
    frames = progress._screen
    with progress.stage("convert", 2) as stage, steps.span("convert.onnx.torch.export+torch.onnx-dynamo"):
        before = frames.frame
        wait_for(lambda: frames.frame > before + 2)
        progress.step("onnx")
        stage.note = "2 of 2 targets made"
    written = screen.written()
    assert 10 < max(map(len, pictures(written))) < columns
    assert " ".join(left(written).split()) == "convert 0.0 s 2 of 2 targets made"
    if columns == 80:
        assert "digits.py:Net  0/2  torch.export > torch.onnx-dynamo  0 s" in written
    wait_for(lambda: all(thread.name != "live-line" for thread in threading.enumerate()))


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_a_stop_clears_the_line_and_says_when(stop: type[BaseException]) -> None:
    screen = TerminalScreen(60)
    with pytest.raises(stop), Progress(screen.stream).stage("convert"):
        raise stop
    assert left(screen.written()) == "convert    stopped after 0.0 s\n"


@pytest.mark.usefixtures("fast")
def test_the_line_follows_the_terminal_when_it_gets_narrower() -> None:
    screen, steps = TerminalScreen(80), Timeline()
    progress = Progress(screen.stream)
    progress.follow(steps, "zoo:digits-cnn")
    with progress.stage("convert"), steps.span("convert.onnx.torch.export+torch.onnx-dynamo"):
        screen.resize(30)
        wait_for(lambda: len(progress._screen.shown) < 30)
    assert "digits-cnn" in screen.written()


@pytest.mark.usefixtures("fast")
def test_of_several_models_the_last_that_spoke_is_shown() -> None:
    screen = TerminalScreen(80)
    progress = Progress(screen.stream)
    one, two = progress.of("one", 3), progress.of("two", 3)
    with one.stage("convert", 2), two.stage("model"):
        one.step("onnx")
        one.note("a sentence of one")
    shown = pictures(written := screen.written())
    assert any(" two  model  0 s  +1 model" in text for text in shown)
    assert any(" one  convert  1/2  onnx  0 s  +1 model" in text for text in shown)
    assert left(written).splitlines()[0] == "one  note: a sentence of one"


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_quiet_says_nothing_and_a_dumb_terminal_gets_plain_lines(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    for quiet in (False, True):
        screen = TerminalScreen(80)
        progress = Progress(screen.stream, quiet=quiet)
        with progress.stage("convert"):
            progress.step("onnx")
        written = screen.written()
        assert (CLEAR in written) == (term == "xterm" and not quiet)
        assert left(written) == ("" if quiet else "convert       0.0 s\n")


@pytest.mark.usefixtures("fast")
def test_a_long_stage_says_where_it_is_if_nobody_sees_a_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "_REMINDER_S", 0.02)
    stream, steps = io.StringIO(), Timeline()
    progress = Progress(stream).of("net")
    progress.follow(steps, "net")
    with progress.stage("convert"), steps.span("verify.onnx.torch.export"):
        wait_for(lambda: "still" in stream.getvalue())
    assert stream.getvalue().splitlines()[0] == "net  convert    still at verify torch.export after 0 s"


EPOCH = "epoch {}/9  loss 0.1250  validation loss 0.2500  best 0.2500  rate 0.005  3 s left"


@pytest.mark.usefixtures("fast")
def test_a_training_tells_its_first_and_its_last_epoch_and_few_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "_REMINDER_S", 0.02)
    stream, steps, log = io.StringIO(), Timeline(), tmp_path / "train.log"
    progress = Progress(stream)
    progress.follow(steps, "net", lambda name: tmp_path / f"{name}.log")
    with progress.stage("train") as stage:
        with steps.span("train"):
            log.write_text(f"a word of the user's\n{EPOCH.format(1)}\nwarning\nepoch 2/9  lo")
            wait_for(lambda: "epoch" in stream.getvalue())
            for epoch in range(2, 10):
                log.write_text(f"{EPOCH.format(epoch)}\n")
                progress._screen._remind()
        stage.note = "done"
    lines = stream.getvalue().splitlines()
    assert lines[0] == f"train      {EPOCH.format(1)}"
    assert lines[-1].endswith("s  done")
    assert [line for line in lines if "epoch" in line and "still" not in line] == [
        f"train      {EPOCH.format(at)}" for at in (1, 9)
    ]


@pytest.mark.usefixtures("fast")
def test_an_epoch_is_in_the_live_line_of_a_terminal_and_none_of_a_training_of_before(tmp_path: Path) -> None:
    screen, steps = TerminalScreen(110), Timeline()
    (tmp_path / "train.log").write_text(f"{EPOCH.format(4)}\n")
    progress = Progress(screen.stream)
    progress.follow(steps, "net", lambda name: tmp_path / f"{name}.log")
    with progress.stage("model"):
        wait_for(lambda: " model " in progress._screen.shown)
        assert "epoch" not in progress._screen.shown
    with progress.stage("train"), steps.span("train"):
        wait_for(lambda: EPOCH.format(4) in progress._screen.shown)
    with progress.stage("reference"):
        wait_for(lambda: " reference " in progress._screen.shown)
        assert "epoch" not in progress._screen.shown
    assert left(screen.written()).count("epoch") == 0


def test_lines_of_several_models_begin_with_their_names() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    one, two = (progress.of(name, 5) for name in ("small", "net"))
    with one.stage("convert", 2) as first, two.stage("model"):
        one.step("onnx")
        two.note("the steps of acme are left out")
        first.note = "2 of 2 targets made"
    lines = stream.getvalue().splitlines()
    assert lines[0] == "net    note: the steps of acme are left out"
    assert lines[1].startswith("net    model ")
    assert lines[2].startswith("small  convert ")
    assert lines[2].endswith(" s  2 of 2 targets made")


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (99, "⠋ convert  digits-cnn  1/5  torch.export > torch.onnx-dynamo, verify torch.export  12 s"),
        (70, "⠋ convert  digits-cnn  1/5  torch.export > torch.onnx-dynamo +1  12 s"),
        (60, "⠋ convert  digits-cnn  1/5  torch.onnx-dynamo +1  12 s"),
        (48, "⠋ convert  digits-cnn  1/5  12 s"),
        (26, "⠋ convert  1/5  12 s"),
        (15, "convert  12 s"),
        (4, "12 s"),
        (3, ""),
    ],
)
def test_what_has_no_room_is_left_out_whole(columns: int, text: str) -> None:
    steps = ("torch.export > torch.onnx-dynamo", "verify torch.export")
    assert live_text(MovingStage("", "convert", "digits-cnn", "1/5", steps, 12.2), columns, 0) == text
    assert live_text(MovingStage("", "convert", "", "", (), 1), columns, 1, "ascii").isascii()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("zoo:digits-cnn", "digits-cnn"),
        ("/home/me/net.py:Net", "net.py:Net"),
        ("hf:/models/bert/", "bert/"),
        ("net.onnx", "net.onnx"),
        ("http://127.0.0.1:8501", "127.0.0.1:8501"),
    ],
)
def test_the_name_of_a_model_is_without_its_place(text: str, name: str) -> None:
    assert name_of_model(text) == name


def test_a_step_is_called_as_its_route_is_printed() -> None:
    from transload.converters.steps import STEPS
    from transload.models.formats import parse_target

    plan = plan_routes((parse_target("tflite:int8"),), None, STEPS)
    route = plan.cheapest(parse_target("tflite:int8"))
    assert name_of_step(action_name("convert", route)) == " > ".join(route.names)
    assert name_of_step(action_name("verify", route)) == f"verify {' > '.join(route.names)}"
    assert name_of_step("given.model.onnx") == "read the file"
    assert name_of_step("train") == "train"


PATH = "/a/long/path/that/has/no/blank/and/does/not/fit/into/forty/columns/net.py"


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("short", ["short"]),
        (f"no such file: {PATH}", ["no such file:", f"  {PATH}"]),
        (f"  fix: look at {PATH} again, please do", ["  fix: look at", f"    {PATH}", "    again, please do"]),
        (
            "onnx  verified  torch.export > torch.onnx: agrees",
            ["onnx  verified  torch.export >", "                torch.onnx: agrees"],
        ),
        (
            "say it with words: 'transload formats' lists",
            ["say it with words: 'transload formats'", "  lists"],
        ),
        (
            "where it departs is found by: transload locate made/onnx --against net.py:Net --data samples.npz",
            ["where it departs is found by:", "  transload locate made/onnx --against net.py:Net --data samples.npz"],
        ),
        ("模型模型模型模型模型 模型模型模型模型模型", ["模型模型模型模型模型", "  模型模型模型模型模型"]),
    ],
)
def test_lines_wrap_at_words_and_paths_commands_and_quotes_stay_whole(line: str, lines: list[str]) -> None:
    assert wrap_words(line, 40) == lines


def test_only_a_terminal_gets_wrapped_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "word " * 30
    with (tmp_path / "file").open("w") as file:
        assert fit_terminal(text, file) == text
    screen = TerminalScreen(40)
    assert max(map(len, fit_terminal(text, screen.stream).splitlines())) <= 40
    screen.resize(0)  # as a terminal on a serial line
    monkeypatch.setenv("COLUMNS", "50")
    assert columns_of(screen.stream) == 50
    monkeypatch.delenv("COLUMNS")
    assert columns_of(screen.stream) == 80
    screen.written()


def test_a_terminal_that_is_gone_ends_the_live_line_and_not_the_command(fast: None) -> None:
    class Gone(io.StringIO):
        writes = 0

        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> Any:
            self.writes += 1
            if self.writes == 2:
                raise OSError(5, "Input/output error")
            return super().write(text)

    stream = Gone()
    with Progress(stream).stage("convert"):
        wait_for(lambda: stream.writes == 2)
    assert left(stream.getvalue()) == "convert       0.0 s\n"
