"""The rule cpu_bottleneck."""

from __future__ import annotations

from typing import ClassVar

from leadline.records.formatting import exact
from leadline.rules import Advice, MetricNeed
from leadline.rules.bounds import NonNegativeInt, Percent
from leadline.rules.system.gpu_starvation import GPUStarvationRule
from leadline.rules.system.system_rule import CPU, GPU


class CPUBottleneck(GPUStarvationRule, frozen=True, kw_only=True):
    """Fires when a GPU is nearly idle while the CPU of its node is nearly full, in too many samples.

    Why it matters:
        A GPU that waits for the CPU costs as much as one that computes. The work of the CPU at that time (decoding,
        augmentation, Python) is what to speed up or to spread over more processes.
    How it decides:
        Fires if ``utilization < gpu_threshold`` of a GPU and ``> cpu_threshold`` of its node's CPU hold together in
        more than ``threshold`` percent of the GPU's samples. The first ``patience`` samples are skipped, and at least
        10 must follow. Each GPU is evaluated separately. The finding names the phases at the time of these samples,
        and the operators recorded by detailed profile windows.
    Not a number:
        A sample without a value of both metrics is not counted.
    Blind spots:
        The CPU metric is the mean over all cores: one Python thread at 100 % on a node of 64 cores is 1.6 %. The
        utilization of a GPU tells that a kernel was running, not how much of the GPU it used.
    Args:
        threshold: Percent of the samples, 0 to 100.
        gpu_threshold: Percent of a GPU, 0 to 100.
        cpu_threshold: Percent of all cores, 0 to 100.
        patience: Samples skipped at the start, >= 0.
    Source:
        SageMaker developer guide, "CPUBottleneck" (``smdebug_rulesconfig`` 1.0.1 has patience 1000).
    """

    metrics: ClassVar[tuple[MetricNeed, ...]] = (CPU, GPU)
    host_metric: ClassVar[MetricNeed] = CPU
    suggestion: ClassVar[Advice] = Advice(
        "more data loader workers, cheaper or cached preprocessing, or preprocessing on the GPU; usually decoding and "
        "augmenting on the CPU cannot keep up"
    )

    threshold: Percent = 50.0
    gpu_threshold: Percent = 10.0
    cpu_threshold: Percent = 90.0
    patience: NonNegativeInt = 100

    @property
    def host_threshold(self) -> float:
        return self.cpu_threshold

    @property
    def host_condition(self) -> str:
        return f"the CPU was above {exact(self.cpu_threshold)} %"
