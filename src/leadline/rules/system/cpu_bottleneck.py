"""The rule cpu_bottleneck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more
from leadline.rules.system.device_metrics import CPU, GPU, NO_GPU, SCAN_SECONDS
from leadline.rules.system.gpu_starvation import FEWEST, StarvedGpuRule
from leadline.rules.system.phase_times import WATCHED

if TYPE_CHECKING:
    from leadline.reader.window import Window


class CPUBottleneck(Rule, frozen=True, kw_only=True):
    """Fires when a GPU does little while its node's CPU is nearly full, in too many samples.

    Why it matters:
        A GPU that waits for the CPU costs what it costs at work; what the CPU does then (decoding, augmenting,
        Python) is what to make faster or to spread over more processes.
    How it decides:
        Of a GPU's samples, ``utilization < gpu_threshold`` while the node's CPU is ``> cpu_threshold`` in more than
        ``threshold`` percent; the first ``patience`` samples are passed over, and at least 10 must follow. Each GPU
        by itself. The finding names the
        phases in which the bad samples lie, and what detailed windows recorded of the operators then.
    Not a number:
        A sample at which either could not be read does not count.
    Blind spots:
        All cores together are judged: one Python thread that is full on a node of 64 cores is 1.6 %. A GPU's
        utilization says that a kernel ran, not how much of the GPU it used.
    Args:
        threshold: Percent of the samples, 0 to 100.
        gpu_threshold: Percent of a GPU, 0 to 100.
        cpu_threshold: Percent of all cores, 0 to 100.
        patience: Samples passed over at the start, >= 0.
    Source:
        SageMaker developer guide, "CPUBottleneck" (``smdebug_rulesconfig`` 1.0.1 has patience 1000).
    """

    explains: ClassVar[tuple[str, ...]] = ("low_gpu_utilization", "batch_size", "hardware_utilization")

    threshold: Annotated[float, msgspec.Meta(ge=0, le=100)] = 50.0
    gpu_threshold: Annotated[float, msgspec.Meta(ge=0, le=100)] = 10.0
    cpu_threshold: Annotated[float, msgspec.Meta(ge=0, le=100)] = 90.0
    patience: Annotated[int, msgspec.Meta(ge=0)] = 100

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, metrics=(CPU, GPU), phases=WATCHED, operators=True)

    def remember(self, memory: Any, window: Window) -> StarvedGpuRule:
        starved: StarvedGpuRule = memory or StarvedGpuRule(CPU, self.cpu_threshold, self.gpu_threshold, self.patience)
        starved.add(window)
        return starved

    def evaluate(self, window: Window) -> Verdict:
        starved: StarvedGpuRule = window.memory
        worst = starved.worst(self.threshold)
        if worst:
            name, percent, tally = worst[0]
            meanwhile = starved.meanwhile(tally)
            return Fired(
                f"{name} was below {self.gpu_threshold:g} % while the CPU was above {self.cpu_threshold:g} % in "
                f"{percent:.0f} % of the samples{and_more(len(worst) - 1, 'GPU')}{meanwhile.spoken}",
                tensors=tuple(each for each, _, _ in worst),
                evidence={
                    "percent": percent,
                    "threshold": self.threshold,
                    "samples": tally.judged,
                    "bad_samples": tally.bad,
                    **meanwhile.evidence,
                },
                suggestion="more data loader workers, cheaper or cached preprocessing, or preprocessing on the GPU; "
                "usually decoding and augmenting on the CPU cannot keep up",
            )
        if starved.judged():
            return Clear()
        return Undecided(f"fewer than {self.patience + FEWEST:,} samples of the machine" if starved.tallies else NO_GPU)
