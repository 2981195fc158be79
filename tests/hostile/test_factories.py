"""Code that makes a model and does more than that: one sentence, the mend, a clean stdout, nothing left running."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Ran

CODE = """
import os, sys, time
import torch

class Net(torch.nn.Module):
    def __init__(self, width: int = 3):
        super().__init__()
        self.line = torch.nn.Linear(4, width)
    def forward(self, x):
        return torch.relu(self.line(x))

def prints():
    print("LOUD"); print("LOUD", file=sys.stderr); os.system("echo LOUD"); os.write(1, b"LOUD")
    return Net()

def raises():
    raise ValueError("no luck\\nat all")

def leaves():
    sys.exit("enough")

class Mute(Exception):
    def __str__(self):
        return self.detail

def raises_what_says_nothing():
    raise Mute

def interrupts():
    raise KeyboardInterrupt

def clears_the_path():
    sys.path.clear()
    sys.stdout = None
    sys.stderr.close()
    os.chdir("/")
    return Net()

def dies():
    os._exit(3)

def hangs():
    while True:
        time.sleep(0.1)

class Told(Net):
    def eval(self):
        print(f"made in {os.getpid()}.")
        return super().eval()

class Stubborn(Net):
    def eval(self):
        raise RuntimeError("never")

class Tee:
    def __init__(self, stream):
        self.stream = stream
    def write(self, text):
        self.stream.write(text)

def forks():
    sys.stdout = sys.stderr = Tee(sys.stdout)
    if os.fork() == 0:
        print("LOUD")
    return Told()  # in both of them

def forks_and_waits():
    child = os.fork()
    if child == 0:
        time.sleep(600)
    print(f"child={child}.")
    return Net()

def needs(width, depth):
    return Net(width)

def gives_text():
    return "a model"

INSTANCE = Net()
"""
INPUT = ("--input", "x=float32[batch,4]", "--to", "pt2", "--out", "out", "--quiet")

REFUSED = {
    "raises": (2, "making the model m.py:raises raised ValueError at {here}/m.py:17: no luck\n"
               "  fix: mend {here}/m.py; the log has the traceback"),
    "leaves": (2, "making the model m.py:leaves called exit('enough') at {here}/m.py:20\n  fix: keep what ends the "
               'program, or reads its arguments, under `if __name__ == "__main__":`'),
    "raises_what_says_nothing": (2, "making the model m.py:raises_what_says_nothing raised Mute at {here}/m.py:27: "
                                 "no message\n  fix: mend {here}/m.py; the log has the traceback"),
    "interrupts": (2, "making the model m.py:interrupts raised KeyboardInterrupt at {here}/m.py:30: no message\n"
                   "  fix: mend {here}/m.py; the log has the traceback"),
    "Stubborn": (2, "eval() of m.py:Stubborn raised RuntimeError at {here}/m.py:53: never\n"
                 "  fix: mend {here}/m.py; the log has the traceback"),
    "dies": (4, "making m.py:dies: the worker ended without an answer (exit status 3)\n"
             "  fix: read out/logs/weights.log, or repeat it alone: sh out/repeat/weights.sh"),
    "hangs --model-seconds 6": (4, "m.py:hangs is not made yet after 6 s\n  fix: look for what its code waits for, or "
                                "allow more with --model-seconds; read out/logs/weights.log, or repeat it alone: "
                                "sh out/repeat/weights.sh"),
    "needs": (2, "m.py:needs needs width and depth\n  fix: give what it needs: --set width=VALUE --set depth=VALUE"),
    "Net --set widht=8": (2, "m.py:Net takes no 'widht'\n  fix: did you mean 'width'? it takes width"),
    "Net --set width": (2, "--set 'width' is not of the form NAME=VALUE\n  fix: write it as in --set depth=50"),
    "Net --set width=wide": (2, "width of m.py:Net takes int, got 'wide'\n  fix: give width as int"),
    "INSTANCE --set width=8": (2, "m.py:INSTANCE is no class and no function, and takes no settings\n"
                               "  fix: leave --set out"),
    "gives_text": (2, "m.py:gives_text gives a str, not a torch.nn.Module\n"
                   "  fix: name a class, a function or an instance that gives a module"),
    "Net --weights-key ema": (2, "--weights-key names a part of a file, and no file is named\n"
                              "  fix: name it with --weights"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_factory_that_makes_no_model_is_one_sentence(case: str, here: Path, transload: Callable[..., Ran]) -> None:
    (here / "m.py").write_text(CODE)
    status, said = REFUSED[case]
    name, *options = case.split()
    got, out, err = transload("convert", f"m.py:{name}", *INPUT, *options)
    assert err == f"error: {said.format(here=here)}\n"
    assert (got, out) == (status, "")
    assert not (here / "out" / "pt2").exists()


@pytest.mark.parametrize("name", ["prints", "forks", "clears_the_path"])
def test_what_a_factory_prints_is_the_logs_and_its_model_is_made_once(
    name: str, here: Path, transload: Callable[..., Ran]
) -> None:
    (here / "m.py").write_text(CODE)
    status, out, err = transload("convert", f"m.py:{name}", *INPUT)
    assert (status, err) == (0, "")
    assert "LOUD" not in out
    log = (here / "out" / "logs" / "weights.log").read_text()
    assert ("LOUD" in log) == (name != "clears_the_path")
    assert len(set(re.findall(r"made in (\d+)", log))) == (name == "forks")


def test_a_child_that_a_factory_left_is_ended(here: Path, transload: Callable[..., Ran]) -> None:
    (here / "m.py").write_text(CODE)
    assert transload("convert", "m.py:forks_and_waits", *INPUT)[0] == 0
    log = (here / "out" / "logs" / "weights.log").read_text()
    child = int(log.partition("child=")[2].partition(".")[0])
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]:
            return
        time.sleep(0.05)
    os.kill(child, 9)
    raise AssertionError("the child lives on")
