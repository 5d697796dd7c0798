"""The samplers of a node."""

from __future__ import annotations

import os
import warnings
from typing import Final

from leadline.monitor.accelerators import AmdSampler, UnsupportedAccelerators
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
    """Return all samplers of a node, in the order in which they are sampled."""
    limits = read_limits()
    amd = amd_sampler()
    return [
        CpuSampler(limits.cpu),
        MemorySampler(limit=limits.memory),
        DiskSampler(run),
        NetworkSampler(),
        JobSampler(tree),
        amd or gpu_sampler(os.environ.get("CUDA_VISIBLE_DEVICES")),
        UnsupportedAccelerators(are_amd_read=amd is not None),
    ]


def amd_sampler() -> Sampler | None:
    """Return the sampler of AMD GPUs; None if the driver or its library is missing."""
    if not os.path.exists(AMD_DRIVER):
        return None
    try:
        import amdsmi
    except (ImportError, KeyError, OSError):  # its loader raises any of these if ROCm is installed incompletely
        return None
    return AmdSampler(amdsmi)


def gpu_sampler(visible: str | None) -> Sampler:
    """Return the sampler of NVIDIA GPUs, or a placeholder that reports the missing library."""
    try:
        with warnings.catch_warnings(action="ignore"):  # another package of this name warns that it is deprecated
            import pynvml
    except ImportError as error:
        return NoGpuSampler(f"NVML is not installed: {error}")
    return GpuSampler(pynvml, visible)
