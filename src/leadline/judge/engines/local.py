"""The engine on this machine, which judges as many runs at once as it has cores."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from leadline.judge.engines.engine import Judged, Task, judge_one
from leadline.judge.rule_pool import WorkerLimits, WorkerProcesses


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
