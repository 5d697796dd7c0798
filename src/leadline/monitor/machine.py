"""The samplers of a node."""

from __future__ import annotations

import os
import warnings

from leadline.monitor.cpu import CpuSampler
from leadline.monitor.disk import DiskSampler
from leadline.monitor.gpu import GpuSampler, NoGpuSampler
from leadline.monitor.job import JobSampler
from leadline.monitor.memory import MemorySampler
from leadline.monitor.network import NetworkSampler
from leadline.monitor.processes import ProcessTree
from leadline.monitor.sampler import Sampler


def machine_samplers(run: str, tree: ProcessTree) -> list[Sampler]:
    """Everything that is sampled, every time in this order."""
    return [
        CpuSampler(),
        MemorySampler(),
        DiskSampler(run),
        NetworkSampler(),
        JobSampler(tree),
        gpu_sampler(os.environ.get("CUDA_VISIBLE_DEVICES")),
    ]


def gpu_sampler(visible: str | None) -> Sampler:
    """The GPUs; where there is no NVIDIA driver, what says so."""
    try:
        with warnings.catch_warnings(action="ignore"):  # a package of the same name warns that it is not this one
            import pynvml
    except ImportError as error:
        return NoGpuSampler(f"NVML is not installed: {error}")
    return GpuSampler(pynvml, visible)
