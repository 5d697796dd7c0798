"""The rule dataloader."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from leadline.errors import ConfigurationError
from leadline.records.names import PHASES
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more
from leadline.rules.system.device_metrics import SCAN_SECONDS
from leadline.rules.system.step_times import Step, StepTimes

if TYPE_CHECKING:
    from leadline.reader.window import Window

_STEPS: Final = 50


@dataclass(slots=True)
class _Workers:
    times: StepTimes = field(default_factory=StepTimes)
    latest: dict[str, deque[Step]] = field(default_factory=dict)


class Dataloader(Rule, frozen=True, kw_only=True):
    """Fires when a node has too few or too many data loader workers for its cores, or steps wait too long for data.

    Why it matters:
        Too few workers leave cores idle while the training waits; too many take the cores from each other and from
        the training.
    How it decides:
        The data loader workers of all ranks of a node, in percent of the cores that the job may use, are
        ``< min_threshold`` or ``> max_threshold``; or of the last 50 training steps of a rank more than
        ``max_wait_share`` of the time was waiting for data. Judged from the 50th timed step on.
    Not a number:
        A node whose cores, or a loader whose workers are not known is judged by its waiting alone.
    Blind spots:
        A training whose data are all in memory needs no workers, and fires all the same: ``input_bound`` looks at the
        waiting only. Of several loaders the one before the first steps counts.
    Args:
        min_threshold: Percent of a node's cores, >= 0.
        max_threshold: Percent of a node's cores, >= min_threshold.
        max_wait_share: Share of the step time, 0 to 1.
    Source:
        ``smdebug_rulesconfig`` 1.0.1, "Dataloader"; SageMaker developer guide, the summary of the profiling report.
        ``max_wait_share`` is ours.
    """

    min_threshold: Annotated[float, msgspec.Meta(ge=0)] = 70.0
    max_threshold: Annotated[float, msgspec.Meta(ge=0)] = 200.0
    max_wait_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.3

    def check(self) -> None:
        if self.min_threshold > self.max_threshold:
            raise ConfigurationError("dataloader: min_threshold must be <= max_threshold")

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, phases=(*PHASES, "step"), facts=True)

    def remember(self, memory: Any, window: Window) -> _Workers:
        workers: _Workers = memory or _Workers()
        for each in workers.times.add(window.spans()):
            workers.latest.setdefault(each.worker, deque(maxlen=_STEPS)).append(each)
        return workers

    def evaluate(self, window: Window) -> Verdict:
        judged = {worker: each for worker, each in window.memory.latest.items() if len(each) == _STEPS}
        if not judged:
            return Undecided(f"fewer than {_STEPS} training steps were timed")
        found = [*self._by_cores(window, set(judged)), *self._by_waiting(judged)]
        if not found:
            return Clear()
        said, _, evidence = found[0]
        return Fired(
            f"{said}{and_more(len(found) - 1, 'finding')}",
            tensors=tuple(dict.fromkeys(each for _, each, _ in found)),
            evidence=evidence,
            suggestion="num_workers of the DataLoader so that all ranks of a node have about as many as it has cores; "
            "usually the default of 0 was left, which loads in the training process itself",
        )

    def _by_cores(self, window: Window, judged: set[str]) -> list[tuple[str, str, dict[str, Any]]]:
        counts: dict[str, int] = {}
        cores: dict[str, int] = {}
        for worker, facts in sorted(window.facts.items()):
            if worker in judged and facts.get("cores") and isinstance(facts.get("dataloader_workers"), int):
                counts[facts["node"]] = counts.get(facts["node"], 0) + facts["dataloader_workers"]
                cores[facts["node"]] = facts["cores"]
        percents = {node: 100.0 * count / cores[node] for node, count in counts.items()}
        return [
            (
                f"{counts[node]:,} data loader workers on {cores[node]:,} cores of {node} ({percent:.0f} %)",
                node,
                {"workers": counts[node], "cores": cores[node], "percent": percent},
            )
            for node, percent in percents.items()
            if not self.min_threshold <= percent <= self.max_threshold
        ]

    def _by_waiting(self, judged: dict[str, deque[Step]]) -> list[tuple[str, str, dict[str, Any]]]:
        shares = {
            worker: sum(each.phase_ns("data") for each in steps) / max(1, sum(each.duration_ns for each in steps))
            for worker, steps in sorted(judged.items())
        }
        return [
            (
                f"{100 * share:.0f} % of the last {_STEPS} steps of {worker} is waiting for data",
                worker,
                {"wait_share": share, "allowed": self.max_wait_share},
            )
            for worker, share in shares.items()
            if share > self.max_wait_share
        ]
