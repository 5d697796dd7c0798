"""The samplers of a node."""

from __future__ import annotations

import os
import warnings
from typing import Final

from leadline.monitor.accelerators import UnreadAccelerators
from leadline.monitor.amd import AmdSampler
from leadline.monitor.cgroup import read_limits
from leadline.monitor.cpu import CpuSampler
from leadline.monitor.disk import DiskSampler
from leadline.monitor.gpu import GpuSampler, NoGpuSampler
from leadline.monitor.job import JobSampler
from leadline.monitor.memory import MemorySampler
from leadline.monitor.network import NetworkSampler
from leadline.monitor.processes import ProcessTree
from leadline.monitor.sampler import Sampler

AMD_DRIVER: Final = "/dev/kfd"


def machine_samplers(run: str, tree: ProcessTree) -> list[Sampler]:
    """Everything that is sampled, every time in this order."""
    limits = read_limits()
    amd = amd_sampler()
    return [
        CpuSampler(limits.cpu),
        MemorySampler(limit=limits.memory),
        DiskSampler(run),
        NetworkSampler(),
        JobSampler(tree),
        amd or gpu_sampler(os.environ.get("CUDA_VISIBLE_DEVICES")),
        UnreadAccelerators(are_amd_read=amd is not None),
    ]


def amd_sampler() -> Sampler | None:
    """AMD's GPUs; None where the driver is not there, or its library is not installed."""
    if not os.path.exists(AMD_DRIVER):
        return None
    try:
        import amdsmi
    except (ImportError, KeyError, OSError):  # its loader raises what it meets where ROCm is only half there
        return None
    return AmdSampler(amdsmi)


def gpu_sampler(visible: str | None) -> Sampler:
    """The GPUs; where there is no NVIDIA driver, what says so."""
    try:
        with warnings.catch_warnings(action="ignore"):  # a package of the same name warns that it is not this one
            import pynvml
    except ImportError as error:
        return NoGpuSampler(f"NVML is not installed: {error}")
    return GpuSampler(pynvml, visible)
