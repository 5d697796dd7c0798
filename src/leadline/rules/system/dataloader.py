"""The rule dataloader."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from leadline.errors import ConfigurationError
from leadline.records.names import PHASES
from leadline.rules import Advice, Clear, Needs, NotApplicable, Rule, Severity, Undecided, Verdict, Window
from leadline.rules.bounds import NonNegativeFloat, Share
from leadline.rules.messages import and_more, fired
from leadline.rules.system.step_times import Step, StepTimes
from leadline.rules.system.system_rule import SCAN_SECONDS

_STEPS: Final = 50
_ADVICE: Final = Advice("{loader_workers} that all ranks of a node together have about one worker per core")
_NONE_ADVICE: Final = Advice(
    "{loader_workers} that all ranks of a node together have about one worker per core; usually it is the default of "
    "0, which loads data in the training process itself"
)


@dataclass(slots=True)
class _LatestSteps:
    times: StepTimes = field(default_factory=StepTimes)
    latest: dict[str, deque[Step]] = field(default_factory=dict)


class Dataloader(Rule, frozen=True, kw_only=True):
    """Fires when a node has too few or too many data loader workers for its cores, or steps wait too long for data.

    Why it matters:
        Too few workers leave cores idle while the training waits; too many compete with each other and with the
        training for the cores.
    How it decides:
        Fires if the data loader workers of all ranks of a node, in percent of the cores that the job may use, are
        ``< min_threshold`` or ``> max_threshold``; or if more than ``max_wait_share`` of the time of the last 50
        training steps of a rank was spent waiting for data. Evaluated from the 50th timed step.
    Not a number:
        If the cores of a node or the workers of a loader are not known, only the waiting time is evaluated. Not
        applicable to a training without a DataLoader.
    Blind spots:
        A training with all data in memory needs no workers, and fires all the same: ``input_bound`` evaluates only
        the waiting time. With several loaders, the one used before the first steps counts.
    Args:
        min_threshold: Percent of a node's cores, >= 0.
        max_threshold: Percent of a node's cores, >= min_threshold.
        max_wait_share: Share of the step time, 0 to 1.
    Source:
        ``smdebug_rulesconfig`` 1.0.1, "Dataloader"; SageMaker developer guide, the summary of the profiling report.
        ``max_wait_share`` is ours.
    """

    severity: ClassVar[Severity] = "advice"

    min_threshold: NonNegativeFloat = 70.0
    max_threshold: NonNegativeFloat = 200.0
    max_wait_share: Share = 0.3

    def check(self) -> None:
        if self.min_threshold > self.max_threshold:
            raise ConfigurationError("dataloader: min_threshold must be <= max_threshold")

    def needs(self) -> Needs:
        return Needs(scan_seconds=SCAN_SECONDS, phases=(*PHASES, "step"), facts=True)

    def remember(self, memory: Any, window: Window) -> _LatestSteps:
        known: _LatestSteps = memory or _LatestSteps()
        for step in known.times.add(window.spans()):
            known.latest.setdefault(step.worker, deque(maxlen=_STEPS)).append(step)
        return known

    def evaluate(self, window: Window) -> Verdict:
        judged = {worker: steps for worker, steps in window.memory.latest.items() if len(steps) == _STEPS}
        if not judged:
            return Undecided(f"fewer than {_STEPS} training steps were timed")
        findings = [*self._by_cores(window, set(judged)), *self._by_waiting(judged)]
        if not findings and not _has_loader(window, judged):
            return NotApplicable("the training uses no DataLoader")
        if not findings:
            return Clear()
        message, _, evidence = findings[0]
        return fired(
            f"{message}{and_more(len(findings) - 1, 'finding')}",
            *(name for _, name, _ in findings),
            advice=_ADVICE if _workers(window, judged) else _NONE_ADVICE,
            evidence=evidence,
        )

    def _by_cores(self, window: Window, judged: set[str]) -> list[tuple[str, str, dict[str, float]]]:
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

    def _by_waiting(self, judged: dict[str, deque[Step]]) -> list[tuple[str, str, dict[str, float]]]:
        shares = {
            worker: sum(step.phase_ns("data") for step in steps) / max(1, sum(step.duration_ns for step in steps))
            for worker, steps in sorted(judged.items())
        }
        return [
            (
                f"{100 * share:.0f} % of the time of steps {judged[worker][0].step:,} to {judged[worker][-1].step:,} "
                f"of {worker} is waiting for data",
                worker,
                {"wait_share": share, "allowed": self.max_wait_share},
            )
            for worker, share in shares.items()
            if share > self.max_wait_share
        ]


def _workers(window: Window, judged: Iterable[str]) -> int:
    """Return the number of data loader workers of the judged ranks, as far as it is known."""
    counts = (window.facts.get(worker, {}).get("dataloader_workers") for worker in judged)
    return sum(count for count in counts if isinstance(count, int))


def _has_loader(window: Window, judged: dict[str, deque[Step]]) -> bool:
    """Return whether the number of data loader workers is known, or time was spent waiting for data."""
    is_known = any(isinstance(facts.get("dataloader_workers"), int) for facts in window.facts.values())
    return is_known or any(step.phase_ns("data") for steps in judged.values() for step in steps)
