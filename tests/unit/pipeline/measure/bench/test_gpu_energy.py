"""The energy counter of a GPU, asked of a driver that is made up."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from transload.pipeline.measure.bench.gpu_energy import gpu_energy_j

SPENT_MJ = {1: 5_000, 2: 9_000, 3: None}  # by handle


def driver(gpus: int) -> SimpleNamespace:
    """NVML with so many GPUs, of which the third has no counter."""

    def count(pointer: Any) -> int:
        pointer._obj.value = gpus
        return 0

    def by_index(at: int, pointer: Any) -> int:
        pointer._obj.value = at + 1
        return 0 if at < gpus else 2  # invalid argument

    def by_uuid(uuid: bytes, pointer: Any) -> int:
        pointer._obj.value = 2
        return 0 if uuid == b"GPU-2" else 6  # not found

    def energy(handle: ctypes.c_void_p, pointer: Any) -> int:
        spent = SPENT_MJ[handle.value or 0]
        if spent is None:
            return 3  # not supported
        pointer._obj.value = spent
        return 0

    return SimpleNamespace(
        nvmlDeviceGetCount_v2=count, nvmlDeviceGetHandleByIndex_v2=by_index, nvmlDeviceGetHandleByUUID=by_uuid,
        nvmlDeviceGetTotalEnergyConsumption=energy,
    )  # fmt: skip


def test_the_counter_is_read_in_joules() -> None:
    assert gpu_energy_j("cuda", driver(1), {}) == 5.0
    assert gpu_energy_j("cuda:0", driver(1), {}) == 5.0


@pytest.mark.parametrize("visible", ["1", "GPU-2", "1,0"])
def test_it_is_that_of_the_gpu_which_cuda_shows(visible: str) -> None:
    order = {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert gpu_energy_j("cuda:0", driver(2), order) == 9.0


@pytest.mark.parametrize(
    ("device", "gpus", "environ"),
    [
        ("cpu", 1, {}),
        ("unknown", 1, {}),
        ("cuda:0", 2, {}),  # which one, CUDA alone knows
        ("cuda:4", 1, {}),
        ("cuda:0", 1, {"CUDA_VISIBLE_DEVICES": "GPU-9"}),
        ("cuda:2", 3, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),  # it has no counter
    ],
)
def test_what_is_not_known_is_none(device: str, gpus: int, environ: dict[str, str]) -> None:
    assert gpu_energy_j(device, driver(gpus), environ) is None
