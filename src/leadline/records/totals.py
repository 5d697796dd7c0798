"""Totals over the workers of a run: steps, overhead and sampling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from leadline.records.documents import CaptureCost, NodeDocument, RuleSummary, SampledItem, WorkerDocument

_MOST_STEPS: Final = 3
"""A run has a start and a rest from this multiple of the first steps on."""


def steps_by_mode(workers: Iterable[WorkerDocument]) -> dict[str, int]:
    """Return the number of steps by mode, of the worker with the most steps."""
    steps: dict[str, int] = {}
    for worker in workers:
        for mode, count in worker.steps.items():
            steps[mode] = max(steps.get(mode, 0), count)
    return steps


def trainings(workers: Iterable[WorkerDocument]) -> tuple[int, ...]:
    """Return the first train steps of the trainings of the worker with the most of them, up to ``MAX_TRAININGS``."""
    return max(((0, *worker.trainings) for worker in workers), key=len, default=(0,))


def step_share(workers: Iterable[WorkerDocument]) -> float | None:
    """Return the share of the training thread's time that Leadline took, compiling capture programs included.

    Units:
        A ratio over all workers; None if no step was recorded.
    """
    workers = list(workers)
    loop_ns = sum(worker.loop_ns for worker in workers)
    return sum(worker.own_ns + worker.compile_ns for worker in workers) / loop_ns if loop_ns else None


def own_seconds(workers: Iterable[WorkerDocument]) -> float | None:
    """Return the processor time that Leadline took in a training thread, and its time to compile capture programs.

    They are those of the worker where they took most.

    Units:
        Seconds; None if no step was recorded.
    """
    return max(((worker.own_ns + worker.compile_ns) / 1e9 for worker in workers if worker.loop_ns), default=None)


@dataclass(frozen=True, slots=True)
class StartAndRest:
    """The overhead of a run, in two parts."""

    steps: int
    """The first steps."""
    seconds: float
    """What they took, also to compile capture programs."""
    step_share_since: float
    """The share of the training thread's time since."""


def start_and_rest(workers: Iterable[WorkerDocument]) -> StartAndRest | None:
    """Return the overhead of the worker where Leadline took most; None: most of its steps are first ones."""
    worker = max(workers, key=lambda document: document.own_ns, default=WorkerDocument())
    start, steps = worker.start, worker.steps.get("train", 0)
    if start is None or steps < _MOST_STEPS * start.steps or worker.loop_ns <= start.loop_ns:
        return None
    since_ns = worker.own_ns + worker.compile_ns - start.own_ns
    return StartAndRest(start.steps, start.own_ns / 1e9, since_ns / (worker.loop_ns - start.loop_ns))


@dataclass(frozen=True, slots=True)
class CostTable:
    """What Leadline took of a training thread, by what it was for."""

    captures: tuple[CaptureCost, ...]
    """The most expensive first."""
    steps: int
    steps_ns: int
    """The rest: what was not captured but done at every step, and once at the start."""
    loop_ns: int
    """The time from the first to the last observed event."""


def cost_table(workers: Iterable[WorkerDocument]) -> CostTable | None:
    """Return the costs of the worker where Leadline took most; None: no step was recorded, or there is no budget."""
    worker = max(workers, key=lambda document: document.own_ns, default=WorkerDocument())
    if not worker.loop_ns or not worker.costs:
        return None
    captures = tuple(sorted(worker.costs, key=lambda cost: -cost.own_ns))
    rest_ns = max(worker.own_ns - sum(cost.own_ns for cost in captures), 0)
    return CostTable(captures, sum(worker.steps.values()), rest_ns, worker.loop_ns)


def compile_seconds(workers: Iterable[WorkerDocument]) -> float:
    """Return the time in which programs that capture were compiled: of the worker where it was longest.

    Units:
        Seconds.
    """
    return max((worker.compile_ns / 1e9 for worker in workers), default=0.0)


def beside_seconds(nodes: Iterable[NodeDocument], summary: RuleSummary) -> float | None:
    """Return the processor time of the agents and the judge, which run beside the training.

    Units:
        Seconds; None: the run has not ended, or does not tell.
    """
    known = [taken for taken in (*(node.processor_seconds for node in nodes), summary.processor_seconds) if taken]
    return sum(known) if known else None


def steps_behind(summary: RuleSummary, workers: Iterable[WorkerDocument]) -> int:
    """Return how many steps were recorded, but not judged yet by all rules."""
    return max(0, max((worker.step for worker in workers), default=-1) - summary.judged_step)


def step_seconds(workers: Iterable[WorkerDocument]) -> float:
    """Return how long a step takes on average: in the worker with the most steps.

    Units:
        Seconds; 0 if no step was recorded.
    """
    most = max(workers, key=lambda worker: sum(worker.steps.values()), default=WorkerDocument())
    return most.loop_ns / 1e9 / max(1, sum(most.steps.values()))


def sampled(workers: Iterable[WorkerDocument]) -> list[SampledItem]:
    """Return what was captured less often than requested, each as in the worker that captured it least."""
    least: dict[tuple[object, ...], SampledItem] = {}
    for item in (item for worker in workers for item in worker.sampled):
        key = (
            item.mode,
            item.collection,
            item.requested_every,
            item.requested_seconds,
            item.sources,
            item.raw,
            item.statistics,
        )
        known = least.get(key)
        if known is None or item.captures * known.requests < known.captures * item.requests:
            least[key] = item
    return list(least.values())
