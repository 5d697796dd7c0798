"""Accelerators other than NVIDIA's: metrics of AMD GPUs, and detection of devices that no sampler supports."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from leadline.records.gpu_description import GpuDescription
from leadline.records.metric import GPU_METRICS, Channel

Library = Any
"""``amdsmi`` or a compatible module."""

_MEGABYTE: Final = 1 << 20
DEVICES: Final = "/dev"
_KNOWN: Final = (
    (re.compile(r"kfd"), "AMD GPU"),
    (
        re.compile(r"accel/accel\d+|hl\d+"),
        "accelerator of the kernel's accel class (Intel Gaudi or NPU, Qualcomm, TPU)",
    ),
    (re.compile(r"accel\d+"), "Google TPU"),
    (re.compile(r"neuron\d+"), "AWS Neuron device"),
    (re.compile(r"davinci\d+"), "Huawei Ascend NPU"),
    (re.compile(r"apex_\d+"), "Google Coral TPU"),
    (re.compile(r"xpu\d+|ipu\d+"), "accelerator"),
)
"""Device file patterns by driver; the first match counts."""


class AmdSampler:
    """Samples the AMD GPUs of this node.

    Blind spots:
        All GPUs of the node are read, regardless of ``HIP_VISIBLE_DEVICES``. Not tested on real hardware.
    """

    kind = "gpu"

    def __init__(self, library: Library) -> None:
        self.absent: dict[str, str] = {}
        self.channels: tuple[Channel, ...] = ()
        self.gpus: list[GpuDescription] = []
        self._library = library
        self._handles: list[Any] = []
        self._is_initialized = False

    def sample(self, now: float) -> Sequence[float | None]:
        if not self._is_initialized:
            self._is_initialized = True
            self._find()
        return [value for index, handle in enumerate(self._handles) for value in self._read(f"gpu{index}", handle)]

    def _find(self) -> None:
        smi = self._library
        try:
            smi.amdsmi_init()
            self._handles = list(smi.amdsmi_get_processor_handles())
        except smi.AmdSmiException as error:
            self.absent["gpu"] = f"AMD SMI is not available: {error}"
            return
        if not self._handles:
            self.absent["gpu"] = "AMD SMI finds no GPU on this node"
        self.channels = tuple(
            Channel("gpu", f"gpu{i}", metric) for i in range(len(self._handles)) for metric in GPU_METRICS
        )
        self.gpus = [self._describe(index, handle) for index, handle in enumerate(self._handles)]

    def _describe(self, index: int, handle: Any) -> GpuDescription:
        device = f"gpu{index}"
        chip = self._query(device, "name", lambda: self._library.amdsmi_get_gpu_asic_info(handle)) or {}
        uuid = self._query(device, "uuid", lambda: self._library.amdsmi_get_gpu_device_uuid(handle))
        gpu: GpuDescription = {"device": device, "index": index}
        if chip.get("market_name"):
            gpu["name"] = chip["market_name"]
        if uuid:
            gpu["uuid"] = uuid
        return gpu

    def _read(self, device: str, handle: Any) -> list[float | None]:
        smi = self._library
        activity = self._query(device, "utilization_percent", lambda: smi.amdsmi_get_gpu_activity(handle)) or {}
        memory = self._query(device, "memory", lambda: smi.amdsmi_get_gpu_vram_usage(handle)) or {}
        celsius = self._query(
            device,
            "temperature_celsius",
            lambda: smi.amdsmi_get_temp_metric(
                handle, smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT
            ),
        )
        power = self._query(device, "power_watts", lambda: smi.amdsmi_get_power_info(handle)) or {}
        used, total = (_number(memory.get(key), _MEGABYTE) for key in ("vram_used", "vram_total"))
        watts = _number(power.get("current_socket_power"))
        return [
            _number(activity.get("gfx_activity")),
            _number(activity.get("umc_activity")),
            used,
            total,
            100.0 * used / total if used is not None and total else None,
            _number(celsius),
            watts if watts is not None else _number(power.get("average_socket_power")),
        ]

    def _query(self, device: str, metric: str, query: Callable[[], Any]) -> Any | None:
        try:
            return query()
        except self._library.AmdSmiException as error:
            self.absent.setdefault(f"{device}.{metric}", str(error))
            return None


def _number(value: Any, factor: int = 1) -> float | None:
    """Return a value as a float; the library returns ``N/A`` for values that a GPU does not support."""
    return float(value) * factor if isinstance(value, (int, float)) and not isinstance(value, bool) else None


class UnsupportedAccelerators:
    """Has no channels; reports the accelerators in ``/dev`` that are not sampled.

    Args:
        are_amd_read: Whether AMD GPUs are sampled elsewhere.
    """

    kind = "accelerator"
    channels: tuple[Channel, ...] = ()

    def __init__(self, devices: str = DEVICES, *, are_amd_read: bool = False) -> None:
        present = _present(devices)
        if are_amd_read:
            del present["AMD GPU"]
        self.absent = {"accelerator": f"present, not supported: {_format(present)}"} if present else {}

    def sample(self, now: float) -> Sequence[float | None]:
        return ()


def _present(devices: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for folder in ("", "accel/"):
        try:
            names = os.listdir(os.path.join(devices, folder))
        except OSError:  # the driver's folder does not exist
            continue
        for name in names:
            counts.update(kind for kind in [_kind(folder + name)] if kind is not None)
    return counts


def _kind(path: str) -> str | None:
    return next((kind for pattern, kind in _KNOWN if pattern.fullmatch(path)), None)


def _format(counts: Counter[str]) -> str:
    return ", ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in sorted(counts.items()))
