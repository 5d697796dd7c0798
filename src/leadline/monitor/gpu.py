"""Metrics of the NVIDIA GPUs visible to the job, read with NVML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leadline.records.gpu_description import GpuDescription
from leadline.records.metric import GPU_METRICS, Channel

Driver = Any
"""``pynvml`` or a compatible module."""

METRICS: Final = (
    *GPU_METRICS,
    "thermal_throttle_percent",
    "power_throttle_percent",
    "ecc_uncorrected_count",
)
_THERMAL: Final = ("nvmlClocksEventReasonSwThermalSlowdown", "nvmlClocksEventReasonHwThermalSlowdown")
_POWER: Final = ("nvmlClocksEventReasonHwPowerBrakeSlowdown",)
"""Power brake by the power supply; running at the GPU's own power limit is normal under load."""


@dataclass(frozen=True, slots=True)
class _Gpu:
    """One GPU, or one MIG instance of one."""

    device: str
    """``gpu<n>`` with NVML's index, ``gpu<n>-mig<m>`` for an instance."""
    handle: Any
    description: GpuDescription


class GpuSampler:
    """Samples the NVIDIA GPUs that the job can see.

    A value that the driver cannot read is absent, with the reason; unsupported values are not queried again.

    Blind spots:
        Indices in ``CUDA_VISIBLE_DEVICES`` are interpreted in NVML's order (PCI bus); CUDA may order GPUs of
        different models otherwise, unless ``CUDA_DEVICE_ORDER=PCI_BUS_ID``. A MIG instance has no utilization
        of its own. Throttling is read at the moment of a sample: 0 or 100, whose mean is the share of time.
        ``ecc_uncorrected_count`` counts since the driver was loaded.
    """

    kind = "gpu"

    def __init__(self, driver: Driver, visible: str | None) -> None:
        self.absent: dict[str, str] = {}
        self._driver = driver
        self._unsupported: set[tuple[str, str]] = set()
        self._visible = visible
        self._gpus: list[_Gpu] = []
        self._is_initialized = False
        self.channels: tuple[Channel, ...] = ()

    @property
    def gpus(self) -> list[GpuDescription]:
        """Descriptions of the GPUs."""
        return [gpu.description for gpu in self._gpus]

    def sample(self, now: float) -> Sequence[float | None]:
        if not self._is_initialized:  # not in the constructor, so that the sampler loop handles errors
            self._is_initialized = True
            self._gpus = self._find(self._visible)
            self.channels = tuple(Channel("gpu", gpu.device, metric) for gpu in self._gpus for metric in METRICS)
        return [value for gpu in self._gpus for value in self._read(gpu)]

    def _read(self, gpu: _Gpu) -> list[float | None]:
        nvml, handle = self._driver, gpu.handle
        memory = self._query(gpu, "memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        used, total = (float(memory.used), float(memory.total)) if memory is not None else (None, None)
        rates = self._query(gpu, "utilization_percent", lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        celsius = self._query(
            gpu,
            "temperature_celsius",
            lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        )
        milliwatts = self._query(gpu, "power_watts", lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        reasons = self._query(gpu, "throttle_reasons", lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        errors = self._query(
            gpu,
            "ecc_uncorrected_count",
            lambda: nvml.nvmlDeviceGetTotalEccErrors(
                handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
            ),
        )
        return [
            float(rates.gpu) if rates is not None else None,
            float(rates.memory) if rates is not None else None,
            used,
            total,
            100.0 * used / total if used is not None and total else None,
            float(celsius) if celsius is not None else None,
            milliwatts / 1000 if milliwatts is not None else None,
            self._throttled(reasons, _THERMAL),
            self._throttled(reasons, _POWER),
            float(errors) if errors is not None else None,
        ]

    def _throttled(self, reasons: int | None, names: Sequence[str]) -> float | None:
        """Return 100 if one of these reasons throttles the clocks, otherwise 0."""
        if reasons is None:
            return None
        return 100.0 if any(reasons & getattr(self._driver, name) for name in names) else 0.0

    def _query(self, gpu: _Gpu, metric: str, query: Callable[[], Any]) -> Any | None:
        if (gpu.device, metric) in self._unsupported:
            return None
        try:
            return query()
        except self._driver.NVMLError as error:
            self.absent.setdefault(f"{gpu.device}.{metric}", str(error))
            if isinstance(error, self._driver.NVMLError_NotSupported):
                self._unsupported.add((gpu.device, metric))
            return None

    def _find(self, visible: str | None) -> list[_Gpu]:
        try:
            self._driver.nvmlInit()
            count = self._driver.nvmlDeviceGetCount()
        except self._driver.NVMLError as error:
            self.absent["gpu"] = f"NVML is not available: {error}"
            return []
        names = visible_devices(visible, count)
        opened = [self._open(name) for name in names]
        gpus = [gpu for gpu in opened if gpu is not None]
        if not gpus:
            self.absent.setdefault("gpu", "no GPU is visible to the job" if count else "no GPU on this node")
        return gpus

    def _open(self, name: int | str) -> _Gpu | None:
        nvml = self._driver
        try:
            if isinstance(name, int):
                return self._describe(nvml.nvmlDeviceGetHandleByIndex(name))
            handle = self._by_uuid(name)
            return self._describe_instance(handle) if name.startswith("MIG") else self._describe(handle)
        except nvml.NVMLError as error:
            self.absent[f"gpu {name}"] = str(error)
            return None

    def _by_uuid(self, name: str) -> Any:
        """Return a device by its UUID, which may be abbreviated as in CUDA."""
        nvml = self._driver
        try:
            return nvml.nvmlDeviceGetHandleByUUID(name)
        except nvml.NVMLError:
            for index in range(nvml.nvmlDeviceGetCount()):
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                if _text(nvml.nvmlDeviceGetUUID(handle)).startswith(name):
                    return handle
            raise

    def _describe(self, handle: Any) -> _Gpu:
        index = int(self._driver.nvmlDeviceGetIndex(handle))
        return self._gpu(f"gpu{index}", index, handle)

    def _describe_instance(self, handle: Any) -> _Gpu:
        nvml = self._driver
        parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
        index = int(nvml.nvmlDeviceGetIndex(parent))
        instance = int(nvml.nvmlDeviceGetGpuInstanceId(handle))
        return self._gpu(f"gpu{index}-mig{instance}", index, handle)

    def _gpu(self, device: str, index: int, handle: Any) -> _Gpu:
        gpu = _Gpu(device, handle, {"device": device, "index": index})
        nvml = self._driver
        name = self._query(gpu, "name", lambda: nvml.nvmlDeviceGetName(handle))
        uuid = self._query(gpu, "uuid", lambda: nvml.nvmlDeviceGetUUID(handle))
        memory = self._query(gpu, "memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        if name is not None:
            gpu.description["name"] = _text(name)
        if uuid is not None:
            gpu.description["uuid"] = _text(uuid)
        if memory is not None:
            gpu.description["memory_bytes"] = int(memory.total)
        return gpu


class NoGpuSampler:
    """Placeholder for a missing NVML library."""

    kind = "gpu"
    channels: tuple[Channel, ...] = ()

    def __init__(self, why: str) -> None:
        self.absent: Mapping[str, str] = {"gpu": why}

    def sample(self, now: float) -> Sequence[float | None]:
        return ()


def visible_devices(setting: str | None, count: int) -> list[int | str]:
    """Return the GPUs in ``CUDA_VISIBLE_DEVICES``: indices or UUIDs.

    As in CUDA, an unset variable means all GPUs, and the first invalid entry and all after it are ignored.
    """
    if setting is None:
        return list(range(count))
    names: list[int | str] = []
    for part in (name.strip() for name in setting.split(",")):
        if part.isdecimal() and int(part) < count:
            names.append(int(part))
        elif part.startswith(("GPU-", "MIG-")):
            names.append(part)
        else:
            break
    return list(dict.fromkeys(names))


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
