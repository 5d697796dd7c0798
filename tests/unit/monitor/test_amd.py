"""AMD GPUs with a fake library, and accelerators that are present but not supported."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leadline.monitor.accelerators import AmdSampler, UnsupportedAccelerators
from leadline.records.metric import GPU_METRICS


class AmdSmiException(Exception):
    """The exception of amdsmi."""


class FakeLibrary:
    """Responds like amdsmi for two MI300X, the second without power readings."""

    AmdSmiException = AmdSmiException
    AmdSmiTemperatureType = SimpleNamespace(HOTSPOT=1)
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT=0)

    def __init__(self, *, starts: bool = True) -> None:
        self._starts = starts

    def amdsmi_init(self) -> None:
        if not self._starts:
            raise AmdSmiException("driver not loaded")

    def amdsmi_get_processor_handles(self) -> list[int]:
        return [0, 1]

    def amdsmi_get_gpu_asic_info(self, handle: int) -> dict[str, Any]:
        return {"market_name": "AMD Instinct MI300X", "vendor_id": "0x1002"}

    def amdsmi_get_gpu_device_uuid(self, handle: int) -> str:
        return f"uuid-{handle}"

    def amdsmi_get_gpu_activity(self, handle: int) -> dict[str, Any]:
        return {"gfx_activity": 91, "umc_activity": 40, "mm_activity": "N/A"}

    def amdsmi_get_gpu_vram_usage(self, handle: int) -> dict[str, Any]:
        return {"vram_total": 196592, "vram_used": 49148}

    def amdsmi_get_temp_metric(self, handle: int, sensor: int, metric: int) -> int:
        if handle == 1:
            raise AmdSmiException("not supported")
        return 55

    def amdsmi_get_power_info(self, handle: int) -> dict[str, Any]:
        return {"current_socket_power": "N/A", "average_socket_power": "N/A" if handle else 640}


def read(sampler: AmdSampler) -> dict[str, float | None]:
    values = sampler.sample(0.0)
    return {
        f"{channel.device}.{channel.metric}": value for channel, value in zip(sampler.channels, values, strict=True)
    }


def test_all_values_in_our_units() -> None:
    sampler = AmdSampler(FakeLibrary())
    values = read(sampler)
    assert len(values) == 2 * len(GPU_METRICS)
    assert {key: value for key, value in values.items() if key.startswith("gpu0")} == {
        "gpu0.utilization_percent": 91.0,
        "gpu0.memory_bandwidth_percent": 40.0,
        "gpu0.memory_used_bytes": 49148 * 1024**2,
        "gpu0.memory_total_bytes": 196592 * 1024**2,
        "gpu0.memory_used_percent": 25.0,
        "gpu0.temperature_celsius": 55.0,
        "gpu0.power_watts": 640.0,
    }
    assert sampler.gpus[1] == {"device": "gpu1", "index": 1, "name": "AMD Instinct MI300X", "uuid": "uuid-1"}


def test_unsupported_values_are_absent() -> None:
    sampler = AmdSampler(FakeLibrary())
    values = read(sampler)
    assert values["gpu1.temperature_celsius"] is None
    assert values["gpu1.power_watts"] is None
    assert sampler.absent == {"gpu1.temperature_celsius": "not supported"}


def test_a_driver_that_does_not_respond_is_reported() -> None:
    sampler = AmdSampler(FakeLibrary(starts=False))
    assert read(sampler) == {}
    assert sampler.absent == {"gpu": "AMD SMI is not available: driver not loaded"}


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ([], None),
        (["null", "tty1", "acceleration", "neuronless"], None),
        (["accel/accel0", "accel/accel1"], "2 x accelerator of the kernel's accel class"),
        (["neuron0", "neuron1", "neuron2"], "3 x AWS Neuron device"),
        (["kfd", "davinci0"], "AMD GPU, Huawei Ascend NPU"),
    ],
)
def test_unsupported_accelerators_are_named(tmp_path: Path, files: list[str], text: str | None) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    absent = UnsupportedAccelerators(str(tmp_path)).absent
    if text is None:
        assert absent == {}
    else:
        assert absent["accelerator"].startswith(f"present, not supported: {text}")


def test_sampled_amd_gpus_are_not_reported_as_unsupported(tmp_path: Path) -> None:
    (tmp_path / "kfd").touch()
    assert UnsupportedAccelerators(str(tmp_path), are_amd_read=True).absent == {}
