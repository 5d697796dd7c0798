"""The rule io_bottleneck."""

from __future__ import annotations

from typing import ClassVar

from leadline.records.formatting import exact
from leadline.rules import Advice, MetricNeed
from leadline.rules.bounds import NonNegativeInt, Percent
from leadline.rules.system.gpu_starvation import GPUStarvationRule
from leadline.rules.system.system_rule import GPU, IOWAIT


class IOBottleneck(GPUStarvationRule, frozen=True, kw_only=True):
    """Fires when a GPU is nearly idle while the cores of its node wait for I/O, in too many samples.

    Why it matters:
        A GPU that waits for a disk costs as much as one that computes; a cache, larger files or a faster disk are
        cheap in comparison.
    How it decides:
        Fires if ``utilization < gpu_threshold`` of a GPU and a share of CPU time waiting for I/O ``> io_threshold``
        hold together in more than ``threshold`` percent of the GPU's samples. The first ``patience`` samples are
        skipped, and at least 10 must follow. Each GPU is evaluated separately. The finding names the phases at the
        time of these samples, and the operators recorded by detailed profile windows.
    Not a number:
        A sample without a value of both metrics is not counted.
    Blind spots:
        The kernel counts only waits for local block devices as I/O wait: reads over the network (object stores, most
        shared file systems) are not visible. The I/O wait metric is the mean over all cores.
    Args:
        threshold: Percent of the samples, 0 to 100.
        gpu_threshold: Percent of a GPU, 0 to 100.
        io_threshold: Percent of the time of all cores, 0 to 100.
        patience: Samples skipped at the start, >= 0.
    Source:
        SageMaker developer guide, "IOBottleneck" (``smdebug_rulesconfig`` 1.0.1 has gpu_threshold 10).
    """

    metrics: ClassVar[tuple[MetricNeed, ...]] = (IOWAIT, GPU)
    host_metric: ClassVar[MetricNeed] = IOWAIT
    suggestion: ClassVar[Advice] = Advice(
        "a local copy or cache of the data, fewer and larger files, more data loader workers; usually many small files "
        "are read from a slow disk, or checkpoints are written too often"
    )

    threshold: Percent = 50.0
    gpu_threshold: Percent = 70.0
    io_threshold: Percent = 50.0
    patience: NonNegativeInt = 1000

    @property
    def host_threshold(self) -> float:
        return self.io_threshold

    @property
    def host_condition(self) -> str:
        return f"more than {exact(self.io_threshold)} % of the CPU's time waited for I/O"
