"""The engine on this machine: as many runs at once as it has cores, each run's rules in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from leadline.judge.engines.engine import Judged, Task, judge_one
from leadline.judge.rule_pool import WorkerLimits
from leadline.judge.worker_processes import WorkerProcesses


class LocalEngine:
    """Judges in processes of this machine, which are kept from run to run: to start one costs more than most runs.

    Args:
        workers: How many runs are judged at once, at least 1; None: as many as this process may use cores.
        limits: What a rule may take.
    """

    def __init__(self, workers: int | None = None, *, limits: WorkerLimits | None = None) -> None:
        self._workers = workers or len(os.sched_getaffinity(0))
        self._limits = limits or WorkerLimits()

    def judge(self, tasks: Sequence[Task]) -> Generator[Judged, None, None]:
        """Judge runs, and tell of each as it comes; the threads only wait for the processes."""
        seats = WorkerProcesses(is_kept=True)
        threads = ThreadPoolExecutor(max(1, min(self._workers, len(tasks))), "judge")
        try:
            waited = [threads.submit(judge_one, task, self._limits, seats) for task in tasks]
            for each in as_completed(waited):
                yield each.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            seats.end()
            threads.shutdown(wait=True)
            seats.close()
