"""NVIDIA GPUs with a fake driver."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from leadline.monitor.gpu import METRICS, GpuSampler, visible_devices


class NVMLError(Exception):
    """The exception of pynvml."""


class NotSupported(NVMLError):
    """The exception of pynvml."""

    def __str__(self) -> str:
        return "Not Supported"


class FakeDriver:
    """Responds like pynvml for two H200s, the second split into MIG instances."""

    NVMLError = NVMLError
    NVMLError_NotSupported = NotSupported
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 1, 0
    nvmlClocksEventReasonSwThermalSlowdown = 0x20
    nvmlClocksEventReasonHwThermalSlowdown = 0x40
    nvmlClocksEventReasonHwPowerBrakeSlowdown = 0x80

    def __init__(self, gpus: int = 2, *, starts: bool = True) -> None:
        self._starts = starts
        self.devices = {index: f"GPU-{index}aaa-bbb" for index in range(gpus)}
        self.failing: dict[str, NVMLError] = {}
        self.queries: list[str] = []
        self.reasons = 0

    def nvmlInit(self) -> None:
        if not self._starts:
            raise NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:
        if uuid == "MIG-1":
            return "instance"
        for index, known in self.devices.items():
            if known == uuid:
                return index
        raise NVMLError("Not Found")

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Any) -> int:
        return 1

    def nvmlDeviceGetGpuInstanceId(self, handle: Any) -> int:
        return 5

    def nvmlDeviceGetIndex(self, handle: Any) -> int:
        assert handle != "instance"
        return int(handle)

    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        return "MIG-1" if handle == "instance" else self.devices[handle]

    def nvmlDeviceGetName(self, handle: Any) -> bytes:
        return b"NVIDIA H200"

    def _answer(self, query: str, value: Any) -> Any:
        self.queries.append(query)
        if query in self.failing:
            raise self.failing[query]
        return value

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:
        return self._answer("memory", SimpleNamespace(used=25, total=100))

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:
        if handle == "instance":
            raise NotSupported
        return self._answer("utilization", SimpleNamespace(gpu=83, memory=20))

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int:
        return int(self._answer("temperature", 61))

    def nvmlDeviceGetPowerUsage(self, handle: Any) -> int:
        return int(self._answer("power", 412_500))

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any) -> int:
        return int(self._answer("reasons", self.reasons))

    def nvmlDeviceGetTotalEccErrors(self, handle: Any, kind: int, counter: int) -> int:
        assert (kind, counter) == (1, 0)
        return int(self._answer("ecc", 3))


def sampled(driver: FakeDriver, visible: str | None) -> GpuSampler:
    """Return a sampler that has taken its first sample."""
    sampler = GpuSampler(driver, visible)
    sampler.sample(0.0)
    return sampler


def named(sampler: GpuSampler) -> dict[str, float | None]:
    sampler.sample(0.0)
    values = sampler.sample(0.5)
    return {
        f"{channel.device}.{channel.metric}": value for channel, value in zip(sampler.channels, values, strict=True)
    }


def test_all_values_of_all_gpus() -> None:
    sampler = GpuSampler(FakeDriver(), None)
    values = named(sampler)
    assert len(values) == 2 * len(METRICS)
    assert {key: value for key, value in values.items() if key.startswith("gpu1")} == {
        "gpu1.utilization_percent": 83.0,
        "gpu1.memory_bandwidth_percent": 20.0,
        "gpu1.memory_used_bytes": 25.0,
        "gpu1.memory_total_bytes": 100.0,
        "gpu1.memory_used_percent": 25.0,
        "gpu1.temperature_celsius": 61.0,
        "gpu1.power_watts": 412.5,
        "gpu1.thermal_throttle_percent": 0.0,
        "gpu1.power_throttle_percent": 0.0,
        "gpu1.ecc_uncorrected_count": 3.0,
    }
    assert sampler.gpus[0] == {
        "device": "gpu0",
        "index": 0,
        "name": "NVIDIA H200",
        "uuid": "GPU-0aaa-bbb",
        "memory_bytes": 100,
    }
    assert sampler.absent == {}


@pytest.mark.parametrize(
    ("reasons", "thermal", "power"),
    [(0x20, 100.0, 0.0), (0x40 | 0x8, 100.0, 0.0), (0x80, 0.0, 100.0), (0x1 | 0x4, 0.0, 0.0)],
)
def test_throttling_excludes_idling_and_the_own_power_limit(reasons: int, thermal: float, power: float) -> None:
    driver = FakeDriver(1)
    driver.reasons = reasons
    values = named(GpuSampler(driver, None))
    assert (values["gpu0.thermal_throttle_percent"], values["gpu0.power_throttle_percent"]) == (thermal, power)


def test_only_visible_gpus_are_sampled() -> None:
    assert {channel.device for channel in sampled(FakeDriver(), "1").channels} == {"gpu1"}


def test_uuids_may_be_abbreviated() -> None:
    for name in ("GPU-1aaa-bbb", "GPU-1a"):
        assert {channel.device for channel in sampled(FakeDriver(), name).channels} == {"gpu1"}


def test_an_instance_has_memory_but_no_utilization() -> None:
    sampler = GpuSampler(FakeDriver(), "MIG-1")
    values = named(sampler)
    assert values["gpu1-mig5.utilization_percent"] is None
    assert values["gpu1-mig5.memory_used_bytes"] == 25.0
    assert sampler.absent == {"gpu1-mig5.utilization_percent": "Not Supported"}


def test_an_unknown_uuid_is_reported() -> None:
    sampler = sampled(FakeDriver(), "GPU-nothing")
    assert sampler.channels == ()
    assert sampler.absent["gpu GPU-nothing"] == "Not Found"
    assert sampler.absent["gpu"] == "no GPU is visible to the job"


def test_a_missing_driver_is_reported() -> None:
    sampler = GpuSampler(FakeDriver(starts=False), None)
    assert sampler.sample(0.0) == []
    assert sampler.absent == {"gpu": "NVML is not available: Driver Not Loaded"}


def test_a_node_without_gpus_is_reported() -> None:
    assert sampled(FakeDriver(0), None).absent == {"gpu": "no GPU on this node"}


def test_a_failing_value_is_absent_and_the_others_are_not() -> None:
    driver = FakeDriver(1)
    sampler = GpuSampler(driver, None)
    driver.failing["power"] = NVMLError("Unknown Error")
    values = named(sampler)
    assert values["gpu0.power_watts"] is None
    assert values["gpu0.utilization_percent"] == 83.0
    assert sampler.absent == {"gpu0.power_watts": "Unknown Error"}
    driver.failing.clear()
    assert named(sampler)["gpu0.power_watts"] == 412.5


def test_unsupported_values_are_not_queried_again() -> None:
    driver = FakeDriver(1)
    sampler = GpuSampler(driver, None)
    driver.failing["power"] = NotSupported()
    for _ in range(3):
        assert named(sampler)["gpu0.power_watts"] is None
    assert driver.queries.count("power") == 1


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("2,0", [2, 0]),
        (" 1 , 3 ", [1, 3]),
        ("1,1", [1]),
        ("0,9,1", [0]),
        ("0,-1,1", [0]),
        ("GPU-ab,MIG-cd", ["GPU-ab", "MIG-cd"]),
    ],
)
def test_visible_devices_as_cuda_reads_them(setting: str | None, seen: list[int | str]) -> None:
    assert visible_devices(setting, 4) == seen
