"""What other programs used while something was measured: the machine's time less our own."""

from __future__ import annotations

import os
from pathlib import Path

from transload.pipeline.measure.bench.machine_load import LoadMeter

TICKS = os.sysconf("SC_CLK_TCK")


def write(proc: Path, busy_s: int, own_s: int, other_pid_s: int = 0) -> None:
    """user and steal count as busy, idle and iowait do not; threads and waited-for children count as ours."""
    proc.joinpath("stat").write_text(f"cpu  {(busy_s - 1) * TICKS} 0 0 99999 99999 0 0 {TICKS} 0 0\ncpu0 1 1\n")
    for pid, seconds in ((os.getpid(), own_s), (77, other_pid_s)):
        folder = proc / str(pid)
        folder.mkdir(exist_ok=True)
        fields = ["S"] + ["0"] * 10 + [str(seconds * TICKS), "0", "0", "0"] + ["0"] * 20
        folder.joinpath("stat").write_text(f"{pid} (a (strange) name) {' '.join(fields)}\n")


def test_our_own_work_is_not_load(tmp_path: Path) -> None:
    write(tmp_path, busy_s=100, own_s=10, other_pid_s=5)
    meter = LoadMeter.start([77], cores=2, proc=tmp_path, clock=lambda: 0.0)
    write(tmp_path, busy_s=116, own_s=16, other_pid_s=9)  # 16 s of work in 10 s, 6 and 4 of them ours
    load = meter.read(clock=lambda: 10.0)
    assert load is not None
    assert (round(load.other_cores, 9), load.cores) == (0.6, 2)


def test_a_process_that_ended_and_a_machine_that_does_not_tell(tmp_path: Path) -> None:
    write(tmp_path, busy_s=100, own_s=10)
    meter = LoadMeter.start([424242], cores=2, proc=tmp_path, clock=lambda: 0.0)
    found = meter.read(clock=lambda: 1.0)
    assert found is not None
    assert found.other_cores == 0.0
    assert LoadMeter.start([], cores=2, proc=tmp_path / "none", clock=lambda: 0.0).read(clock=lambda: 1.0) is None


def test_the_real_machine_is_read() -> None:
    load = LoadMeter.start([], cores=2).read()
    assert load is None or load.other_cores >= 0
