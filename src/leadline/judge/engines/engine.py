"""The interface of the engines, and the engine on this machine, which judges as many runs at once as it has cores."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Protocol

from leadline.errors import DamagedRunError, RunNotFoundError
from leadline.judge.judge import Judge
from leadline.judge.rule_entry import RuleResult
from leadline.judge.rule_pool import WorkerLimits, WorkerProcesses
from leadline.records.manifest import RuleSpec


@dataclass(frozen=True, slots=True)
class Task:
    """A run, and the rules to evaluate."""

    run: str
    """The absolute path of the run directory."""
    rules: tuple[RuleSpec, ...]
    is_own: bool = False
    """Whether these are the rules of the run itself."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of one run."""

    run: str
    rules: tuple[RuleResult, ...] = ()
    damage: tuple[str, ...] = ()
    """One line for each part of the run that could not be read."""
    problem: str = ""
    """Why it could not be judged."""


class Engine(Protocol):
    """Judges stored runs, without writing into them or performing actions.

    Implementations promise:

    **Every task is answered once**, in any order.

    **Isolated rules** - a rule that raises, hangs or runs out of memory gets the status Error and affects no other.

    **Ends at once** - closing the generator ends everything that was started.
    """

    def judge(self, tasks: Sequence[Task]) -> Generator[Judged, None, None]:
        """Judge runs, and yield each result as it arrives.

        Raises:
            MissingExtraError: A package that the engine needs is not installed.
            ConfigurationError: The cluster cannot be reached.
        """


def judge_one(task: Task, limits: WorkerLimits, worker_processes: WorkerProcesses) -> Judged:
    """Judge one run as it is, with processes taken from the pool ``worker_processes``."""
    try:
        judge = Judge(task.run, task.rules, is_written=False, limits=limits, worker_processes=worker_processes)
        results = judge.judge(follow=False)
    except (RunNotFoundError, DamagedRunError) as error:
        return Judged(task.run, problem=str(error))
    except OSError as error:
        return Judged(task.run, problem=f"{task.run} cannot be read: {error.strerror or error}")
    return Judged(task.run, results.rules, results.damage)


class LocalEngine:
    """Judges in local processes, which are reused: starting one takes longer than judging most runs.

    Args:
        workers: The number of runs judged at once, at least 1; None: the number of cores that this process may use.
        limits: The limits of time and memory for a rule.
    """

    def __init__(self, workers: int | None = None, *, limits: WorkerLimits | None = None) -> None:
        self._workers = workers or len(os.sched_getaffinity(0))
        self._limits = limits or WorkerLimits()

    def judge(self, tasks: Sequence[Task]) -> Generator[Judged, None, None]:
        """Judge runs, and yield each result as it arrives; the threads only wait for the processes."""
        worker_processes = WorkerProcesses(is_kept=True)
        threads = ThreadPoolExecutor(max(1, min(self._workers, len(tasks))), "judge")
        try:
            futures = [threads.submit(judge_one, task, self._limits, worker_processes) for task in tasks]
            for future in as_completed(futures):
                yield future.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            worker_processes.end()
            threads.shutdown(wait=True)
            worker_processes.close()
