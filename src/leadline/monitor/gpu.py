"""NVIDIA GPUs by NVML: those that the job can see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leadline.records.metric import Channel

Driver = Any
"""``pynvml``, or what answers like it."""

METRICS: Final = (
    "utilization_percent",
    "memory_bandwidth_percent",
    "memory_used_bytes",
    "memory_total_bytes",
    "memory_used_percent",
    "temperature_celsius",
    "power_watts",
    "thermal_throttle_percent",
    "power_throttle_percent",
    "ecc_uncorrected_count",
)
_THERMAL: Final = ("nvmlClocksEventReasonSwThermalSlowdown", "nvmlClocksEventReasonHwThermalSlowdown")
_POWER: Final = ("nvmlClocksEventReasonHwPowerBrakeSlowdown",)
"""The power supply gave the alarm; that a GPU runs at its own power limit is its normal state under load."""


@dataclass(frozen=True, slots=True)
class _Gpu:
    """One GPU, or one MIG instance of one."""

    device: str
    """``gpu<n>`` with NVML's number, ``gpu<n>-mig<m>`` for an instance."""
    handle: Any
    description: dict[str, Any]


class GpuSampler:
    """What NVML says of the GPUs that the job can see.

    A value that the driver refuses is absent, with the reason; what it does not support is not asked again.

    Blind spots:
        Numbers in ``CUDA_VISIBLE_DEVICES`` are taken in NVML's order (of the bus); CUDA may count GPUs of
        different models in another, unless ``CUDA_DEVICE_ORDER=PCI_BUS_ID``. A MIG instance has no utilization
        of its own. Brakes are seen at the moment of a sample: 0 or 100, of which the mean is the share.
        ``ecc_uncorrected_count`` counts since the driver was loaded.
    """

    kind = "gpu"

    def __init__(self, driver: Driver, visible: str | None) -> None:
        self.absent: dict[str, str] = {}
        self._driver = driver
        self._unsupported: set[tuple[str, str]] = set()
        self._visible = visible
        self._gpus: list[_Gpu] = []
        self._has_looked = False
        self.channels: tuple[Channel, ...] = ()

    @property
    def gpus(self) -> list[dict[str, Any]]:
        """What is known of each GPU."""
        return [gpu.description for gpu in self._gpus]

    def sample(self, now: float) -> Sequence[float | None]:
        if not self._has_looked:  # here and not when made, so that the loop bears it when it raises
            self._has_looked = True
            self._gpus = self._find(self._visible)
            self.channels = tuple(Channel("gpu", gpu.device, metric) for gpu in self._gpus for metric in METRICS)
        return [value for gpu in self._gpus for value in self._read(gpu)]

    def _read(self, gpu: _Gpu) -> list[float | None]:
        nvml, handle = self._driver, gpu.handle
        memory = self._ask(gpu, "memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        used, total = (float(memory.used), float(memory.total)) if memory is not None else (None, None)
        rates = self._ask(gpu, "utilization_percent", lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        celsius = self._ask(
            gpu,
            "temperature_celsius",
            lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        )
        milliwatts = self._ask(gpu, "power_watts", lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        reasons = self._ask(gpu, "throttle_reasons", lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        errors = self._ask(
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
            self._braked(reasons, _THERMAL),
            self._braked(reasons, _POWER),
            float(errors) if errors is not None else None,
        ]

    def _braked(self, reasons: int | None, names: Sequence[str]) -> float | None:
        """100 where one of these reasons holds the clocks down, 0 where none does."""
        if reasons is None:
            return None
        return 100.0 if any(reasons & getattr(self._driver, name) for name in names) else 0.0

    def _ask(self, gpu: _Gpu, metric: str, question: Callable[[], Any]) -> Any | None:
        if (gpu.device, metric) in self._unsupported:
            return None
        try:
            return question()
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
            self.absent["gpu"] = f"no NVIDIA driver answers: {error}"
            return []
        names = visible_devices(visible, count)
        found = [self._open(name) for name in names]
        gpus = [gpu for gpu in found if gpu is not None]
        if not gpus:
            self.absent.setdefault("gpu", "none is visible to the job" if count else "no GPU on this node")
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
        """A device by its UUID; CUDA takes an abbreviated one too."""
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
        name = self._ask(gpu, "name", lambda: nvml.nvmlDeviceGetName(handle))
        uuid = self._ask(gpu, "uuid", lambda: nvml.nvmlDeviceGetUUID(handle))
        memory = self._ask(gpu, "memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        if name is not None:
            gpu.description["name"] = _text(name)
        if uuid is not None:
            gpu.description["uuid"] = _text(uuid)
        if memory is not None:
            gpu.description["memory_bytes"] = int(memory.total)
        return gpu


class NoGpuSampler:
    """Stands where NVML cannot even be loaded."""

    kind = "gpu"
    channels: tuple[Channel, ...] = ()

    def __init__(self, why: str) -> None:
        self.absent: Mapping[str, str] = {"gpu": why}

    def sample(self, now: float) -> Sequence[float | None]:
        return ()


def visible_devices(setting: str | None, count: int) -> list[int | str]:
    """The GPUs that ``CUDA_VISIBLE_DEVICES`` shows: numbers, or UUIDs.

    As CUDA reads it: unset shows all, and the first name that means nothing hides itself and all behind it.
    """
    if setting is None:
        return list(range(count))
    names: list[int | str] = []
    for part in (each.strip() for each in setting.split(",")):
        if part.isdecimal() and int(part) < count:
            names.append(int(part))
        elif part.startswith(("GPU-", "MIG-")):
            names.append(part)
        else:
            break
    return list(dict.fromkeys(names))


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
