"""What held the machine back while something was measured: control groups, heat, clocks, GPUs."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from transload.pipeline.measure.bench.gpu_throttling import gpu_held_s
from transload.pipeline.measure.bench.throttling import ThrottleMeter, Throttling, quota_cores, worst_throttling


class Machine:
    """The files of a kernel, a clock and a processor's frequency that a test sets."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        self.now_s, self.mhz, self.gpu_s = 0.0, 3000.0, 0.0

    def write(self, path: str, text: str) -> None:
        file = self.proc.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def meter(self) -> ThrottleMeter:
        return ThrottleMeter.start(
            proc=self.proc, sys=self.sys, clock=lambda: self.now_s, frequency=lambda: self.mhz, gpu=lambda: self.gpu_s
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_seconds_in_which_a_group_above_ours_was_held_back_count(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/pod/job\n")
    machine.write("sys/fs/cgroup/pod/job/cpu.stat", "nr_periods 5\nthrottled_usec 0\n")
    machine.write("sys/fs/cgroup/pod/cpu.stat", "nr_periods 5\nthrottled_usec 1000000\n")
    machine.write("sys/fs/cgroup/pod/cpu.max", "150000 100000\n")
    machine.write("sys/fs/cgroup/pod/job/cpu.max", "max 100000\n")
    meter = machine.meter()
    machine.write("sys/fs/cgroup/pod/cpu.stat", "nr_periods 9\nthrottled_usec 1800000\n")
    machine.now_s = 20.0
    found = meter.read()
    assert (found.elapsed_s, found.quota_cores) == (20.0, 1.5)
    assert found.held_s == pytest.approx(0.8)


def test_the_first_version_of_control_groups_is_read_too(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "4:memory:/m\n3:cpu,cpuacct:/a/path/of/the/host\n")
    machine.write("sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 0\nthrottled_time 0\n")
    machine.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n")
    machine.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    meter = machine.meter()
    machine.write("sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 4\nthrottled_time 500000000\n")
    assert (meter.read().held_s, quota_cores(machine.proc, machine.sys)) == (0.5, 0.5)
    machine.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    assert quota_cores(machine.proc, machine.sys) is None


def test_a_machine_that_tells_nothing_holds_nothing_back(machine: Machine) -> None:
    machine.mhz = 0.0
    meter = machine.meter()
    meter.sample()
    assert meter.read() == Throttling(0.0)


def test_a_clock_that_falls_for_good_is_seen_and_one_that_wavers_is_not(machine: Machine) -> None:
    for values, fall in (([3000.0] * 6 + [2400.0] * 6, 0.2), ([3000.0, 2400.0] * 6, 0.0), ([3000.0, 2000.0], 0.0)):
        meter = machine.meter()
        for machine.mhz in values:
            meter.sample()
            meter.sample()  # at once: not taken again
            machine.now_s += 0.5
        assert len(meter.samples_mhz) == len(values)
        assert meter.read().clock_fall == pytest.approx(fall)


def test_heat_is_counted_over_all_processors(machine: Machine) -> None:
    for core, count in enumerate((3, 4)):
        machine.write(f"sys/devices/system/cpu/cpu{core}/thermal_throttle/core_throttle_count", f"{count}\n")
    meter = machine.meter()
    machine.write("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "9\n")
    machine.gpu_s = 2.5
    assert (meter.read().heat_events, meter.read().gpu_held_s) == (5, 2.5)


def test_the_worst_of_several_sets_counts() -> None:
    calm, held = Throttling(100.0, held_s=1.0, clock_fall=0.2), Throttling(10.0, held_s=1.0, quota_cores=2.0)
    assert worst_throttling([calm, held]) == Throttling(10.0, 1.0, 2.0, 0.2)
    assert worst_throttling([]) is None


def test_the_driver_is_asked_for_heat_and_power_of_each_gpu() -> None:
    held_ns = {(0, 0): 1_000_000_000, (0, 1): 500_000_000, (1, 0): 4_000_000_000, (1, 1): None}

    def count(pointer: Any) -> int:
        pointer._obj.value = 2
        return 0

    def handle(at: int, pointer: Any) -> int:
        pointer._obj.value = at + 1
        return 0

    def status(device: ctypes.c_void_p, policy: int, pointer: Any) -> int:
        held = held_ns[((device.value or 0) - 1, policy)]
        if held is None:
            return 3  # not supported
        pointer._obj.violation_ns = held
        return 0

    nvml = SimpleNamespace(
        nvmlDeviceGetCount_v2=count, nvmlDeviceGetHandleByIndex_v2=handle, nvmlDeviceGetViolationStatus=status
    )
    assert gpu_held_s(nvml) == 4.0
    assert gpu_held_s(SimpleNamespace(nvmlDeviceGetCount_v2=lambda _: 999)) == 0.0
