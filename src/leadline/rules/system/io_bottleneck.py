"""The rule io_bottleneck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more
from leadline.rules.system.device_metrics import GPU, IOWAIT, NO_GPU, SCAN_SECONDS
from leadline.rules.system.gpu_starvation import FEWEST, StarvedGpuRule
from leadline.rules.system.phase_times import WATCHED

if TYPE_CHECKING:
    from leadline.reader.window import Window


class IOBottleneck(Rule, frozen=True, kw_only=True):
    """Fires when a GPU does little while its node's cores wait for I/O, in too many samples.

    Why it matters:
        A GPU that waits for a disk costs what it costs at work; a cache, larger files or a nearer disk are cheap.
    How it decides:
        Of a GPU's samples, ``utilization < gpu_threshold`` while the share of CPU time that waits for I/O is
        ``> io_threshold`` in more than ``threshold`` percent; the first ``patience`` samples are passed over, and at
        least 10 must follow. Each GPU by itself. The finding names the
        phases in which the bad samples lie, and what detailed windows recorded of the operators then.
    Not a number:
        A sample at which either could not be read does not count.
    Blind spots:
        The kernel counts as waiting for I/O only what local block devices make wait: reads over the network
        (object stores, most shared file systems) do not show. All cores together are judged.
    Args:
        threshold: Percent of the samples, 0 to 100.
        gpu_threshold: Percent of a GPU, 0 to 100.
        io_threshold: Percent of the time of all cores, 0 to 100.
        patience: Samples passed over at the start, >= 0.
    Source:
        SageMaker developer guide, "IOBottleneck" (``smdebug_rulesconfig`` 1.0.1 has gpu_threshold 10).
    """

    explains: ClassVar[tuple[str, ...]] = ("low_gpu_utilization", "batch_size", "hardware_utilization")

    threshold: Annotated[float, msgspec.Meta(ge=0, le=100)] = 50.0
    gpu_threshold: Annotated[float, msgspec.Meta(ge=0, le=100)] = 70.0
    io_threshold: Annotated[float, msgspec.Meta(ge=0, le=100)] = 50.0
    patience: Annotated[int, msgspec.Meta(ge=0)] = 1000

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, metrics=(IOWAIT, GPU), phases=WATCHED, operators=True)

    def remember(self, memory: Any, window: Window) -> StarvedGpuRule:
        starved: StarvedGpuRule = memory or StarvedGpuRule(IOWAIT, self.io_threshold, self.gpu_threshold, self.patience)
        starved.add(window)
        return starved

    def evaluate(self, window: Window) -> Verdict:
        starved: StarvedGpuRule = window.memory
        worst = starved.worst(self.threshold)
        if worst:
            name, percent, tally = worst[0]
            meanwhile = starved.meanwhile(tally)
            return Fired(
                f"{name} was below {self.gpu_threshold:g} % while more than {self.io_threshold:g} % of the CPU's time "
                f"waited for I/O in {percent:.0f} % of the samples{and_more(len(worst) - 1, 'GPU')}"
                f"{meanwhile.spoken}",
                tensors=tuple(each for each, _, _ in worst),
                evidence={
                    "percent": percent,
                    "threshold": self.threshold,
                    "samples": tally.judged,
                    "bad_samples": tally.bad,
                    **meanwhile.evidence,
                },
                suggestion="a local copy or cache of the data, fewer and larger files, more data loader workers; "
                "usually many small files are read from a slow disk, or checkpoints are written too often",
            )
        if starved.judged():
            return Clear()
        return Undecided(f"fewer than {self.patience + FEWEST:,} samples of the machine" if starved.tallies else NO_GPU)
