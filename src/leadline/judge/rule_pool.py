"""The rule workers of a judge: reused from run to run, and replaced when a rule crashes one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from leadline.errors import LeadlineError
from leadline.judge.rule_output import RuleOutput
from leadline.judge.rule_worker import OUT_OF_MEMORY, STATUS_DESCRIPTOR, WorkerStatus
from leadline.judge.worker_messages import EvaluationAnswer, RuleDescription, RuleSetup
from leadline.process.child import Child, describe_exit
from leadline.process.interpreter import own_command, own_environment
from leadline.process.stall import STARVED_SECONDS, StallClock
from leadline.records.manifest import Manifest, RuleSpec
from leadline.rules.registry import BUILT_IN

HANG_SECONDS: Final = 30.0
START_SECONDS: Final = 120.0
MEMORY_BYTES: Final = 2 << 30
END_HANG_SECONDS: Final = 10.0
"""The limit for one evaluation, once the run has ended and the user waits for the prompt."""
END_START_SECONDS: Final = 30.0
_PAUSE: Final = 9.0
"""How long the pause after an evaluation is, relative to it: many small reads take longer than a few large ones."""
_MAX_PAUSE_SECONDS: Final = 1.0
_MAX_CRASHES: Final = 3
"""How often a worker may crash when no rule is responsible."""
_KILLED: Final = (-signal.SIGKILL, -signal.SIGTERM)
"""Exit codes of a worker that another process or the kernel, short of memory, has killed."""
_OUT_OF_MEMORY: Final = "it exceeded the memory limit for rules"
_ENVIRONMENT: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
"""Settings that keep the address space of a worker near what it uses, so that its limit is meaningful."""
_MAX_KEPT_BYTES: Final = 1 << 30
"""A process that uses more memory than this after a run is not reused."""


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """The limits of time and memory for a rule."""

    hang_seconds: float = HANG_SECONDS
    """For the evaluation of one step; the time in which the worker waits for a processor does not count."""
    memory_bytes: int = MEMORY_BYTES
    """Beyond what the worker uses before the rule is constructed."""
    start_seconds: float = START_SECONDS
    """For importing and constructing the rule, and for reading the data to evaluate."""


class WorkersClosedError(LeadlineError):
    """The pool is closed: the evaluation was ended."""


class WorkerProcess(Child):
    """A rule worker.

    Attributes:
        status: What it is doing at this moment.
        output: What it prints.
    """

    def __init__(self) -> None:
        self.status = WorkerStatus(os.memfd_create("leadline-status"))
        command = own_command("leadline.judge.rule_worker")
        self.output = RuleOutput()
        streams = {1: self.output.writing, 2: self.output.writing, STATUS_DESCRIPTOR: self.status.descriptor}
        super().__init__(command, own_environment() | _ENVIRONMENT, streams=streams, has_messages=True)
        self.output.start()

    def close(self) -> None:
        """Kill the process, and release its pipes and its status."""
        super().close()
        self.output.finish()
        self.status.close()


class WorkerProcesses:
    """A pool of processes by kind of rules, reused from run to run; safe to use from several threads.

    Args:
        is_kept: Whether a process that is returned waits for the next run.
    """

    def __init__(self, *, is_kept: bool = False) -> None:
        self._is_kept, self._is_closed = is_kept, False
        self._idle: dict[Hashable, list[WorkerProcess]] = {}
        self._all: set[WorkerProcess] = set()

    def take(self, kind: Hashable) -> WorkerProcess:
        """Return an idle process, or a new one.

        Raises:
            WorkersClosedError: The pool is closed.
        """
        idle = self._idle.setdefault(kind, [])
        worker = idle.pop() if idle else WorkerProcess()
        self._all.add(worker)
        if self._is_closed:
            self.remove(worker)
            raise WorkersClosedError("the evaluation was ended; judge again")
        return worker

    def give_back(self, kind: Hashable, worker: WorkerProcess) -> None:
        """Return a process to the pool."""
        if not self._is_kept or self._is_closed or worker.memory_bytes > _MAX_KEPT_BYTES:
            self.remove(worker)
        else:
            self._idle.setdefault(kind, []).append(worker)

    def remove(self, worker: WorkerProcess) -> None:
        """Kill a process."""
        self._all.discard(worker)
        worker.close()

    def end(self) -> None:
        """Kill all processes at once, from any thread; their users see them exit, and get no others."""
        self._is_closed = True
        for worker in list(self._all):
            worker.kill()

    def close(self) -> None:
        """Kill all processes, once none is in use any more."""
        self._is_closed = True
        for worker in list(self._all):
            self.remove(worker)
        self._idle.clear()


class RuleProcess:
    """One rule worker and its rules.

    Attributes:
        is_finished: Whether a complete run was evaluated to its end, or no rule is left that can be evaluated.
        described: The descriptions of its rules, by alias, from when it was ready.
    """

    def __init__(
        self,
        run: str,
        manifest: Manifest,
        specs: Iterable[RuleSpec],
        limits: WorkerLimits,
        mark_failed: Callable[[str, str], None],
        worker_processes: WorkerProcesses | None = None,
    ) -> None:
        self.specs = list(specs)
        self._kind = tuple((spec.rule, spec.folder) for spec in self.specs if spec.rule not in BUILT_IN)
        self._worker_processes = worker_processes or WorkerProcesses()
        self.is_finished = not self.specs
        self.described: dict[str, RuleDescription] = {}
        self._run, self._name, self._started_ns = run, manifest.name, manifest.started_ns
        self._limits, self._mark_failed = limits, mark_failed
        self._crashes = 0
        self._removed: set[str] = set()
        self._is_busy = False
        self._is_ready = False
        self._was_over = self._is_complete = False
        self._has_work = True
        self._asked_at = self._pause_until = 0.0
        self._worker: WorkerProcess | None = None
        self._progress_at = (0, 0.0)
        self._clock = StallClock(0)

    @property
    def descriptor(self) -> int:
        """The descriptor that becomes readable when the worker answers."""
        return self._running_worker.descriptor

    @property
    def _running_worker(self) -> WorkerProcess:
        assert self._worker is not None
        return self._worker

    def start(self, *, is_over: bool) -> None:
        """Take a process from the pool, and send it the rules.

        Args:
            is_over: Whether the run is evaluated as it is.
        """
        self._is_run_over = is_over
        self._worker = self._worker_processes.take(self._kind)
        self._clock = StallClock(self._worker.pid)
        self._is_busy = self._is_ready = False
        self._worker.output.begin(self.specs[0].alias if self._kind else "worker")
        rules = [asdict(spec) for spec in self.specs]
        setup: RuleSetup = {
            "run": self._run,
            "name": self._name,
            "started_ns": self._started_ns,
            "rules": rules,
            "is_over": is_over,
            "is_custom": bool(self._kind),
            "memory_bytes": self._limits.memory_bytes,
        }
        self._worker.send(setup)

    def remove(self, aliases: Collection[str]) -> None:
        """Evaluate rules no longer: the worker drops them, and its answers about them are ignored."""
        self._removed |= {spec.alias for spec in self.specs if spec.alias in aliases}
        if self._worker is not None and not self.is_finished:
            self._worker.send({"remove": sorted(self._removed)})

    @property
    def is_waiting(self) -> bool:
        """Whether it could evaluate new data at this moment."""
        return not (self._is_busy or self.is_finished or self._has_work) and time.monotonic() >= self._pause_until

    def mark_pending(self) -> None:
        """Note that there is new data to evaluate."""
        self._has_work = True

    def ask(self, *, is_over: bool, gone: Collection[str]) -> None:
        """Have the worker evaluate new data, if it is idle and there is some."""
        if self._worker is not None:
            self._worker.flush()
        now = time.monotonic()
        if self._is_busy or self.is_finished or not self._has_work or (now < self._pause_until and not is_over):
            return
        self._is_busy, self._has_work, self._was_over = True, False, is_over
        self._progress_at, self._asked_at = (-1, now), now
        self._running_worker.send({"is_over": is_over, "gone": sorted(gone)})

    def receive(self) -> list[EvaluationAnswer]:
        """Return its answers; a worker that has crashed is replaced, and there are none."""
        answers: list[Any] = self._running_worker.receive()
        if self._running_worker.has_hung_up:
            code = self._running_worker.wait()
            how = _OUT_OF_MEMORY if code == OUT_OF_MEMORY else f"its process {describe_exit(code)}"
            self._on_crash(how, is_killed=code in _KILLED)
            return []
        if answers and not self._is_ready:
            self._is_ready, self._progress_at = True, (-1, time.monotonic())
            described, *answers = answers[0]["rules"], *answers[1:]
            self.described = {alias: of_rule for alias, of_rule in described.items() if alias not in self._removed}
            self.is_finished = all("error" in description for description in described.values())
        for answer in answers:
            self._forget_removed(answer)
            self._is_busy, now = False, time.monotonic()
            self._has_work = self._has_work or bool(answer["has_more"])
            pause = 0.0 if answer["has_more"] else _PAUSE * (now - self._asked_at)
            self._pause_until = now + min(pause, _MAX_PAUSE_SECONDS)
            self.is_finished = self._was_over and not answer["has_more"]
        return answers

    def _forget_removed(self, answer: EvaluationAnswer) -> None:
        """Leave out what an answer, which may have been under way, reports of rules that were removed."""
        answer["rules"] = {alias: state for alias, state in answer["rules"].items() if alias not in self._removed}
        answer["events"] = [(alias, event) for alias, event in answer["events"] if alias not in self._removed]
        answer["restarted"] = [alias for alias in answer["restarted"] if alias not in self._removed]

    def check_hang(self, *, is_awaited: bool) -> None:
        """Replace the worker if the rule that it is evaluating has not returned although it had the time.

        Args:
            is_awaited: Whether the run has ended, so that the user waits for the prompt: the time limits are shorter.
        """
        if not self._is_busy:
            return
        (evaluation, place, step), now = self._running_worker.status.read(), time.monotonic()
        is_judging = place >= 0 and self._is_ready
        limit = self._limits.hang_seconds if is_judging else max(self._limits.start_seconds, self._limits.hang_seconds)
        if is_awaited:
            limit = min(limit, END_HANG_SECONDS if is_judging else END_START_SECONDS)
        if evaluation != self._progress_at[0]:
            self._progress_at = (evaluation, now)
            self._clock.reset()
            return
        self._clock.look(now)
        if self._clock.used_seconds > limit or now - self._progress_at[1] > limit + STARVED_SECONDS:
            where = f" at step {step:,}" if is_judging and step >= 0 else ""
            self._on_crash(f"did not return within {limit:g} s{where}")

    def close(self) -> None:
        """Return the process to the pool if it has done all that it was asked; otherwise kill it."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        if self._is_ready and not self._is_busy and not worker.has_hung_up:
            self._worker_processes.give_back(self._kind, worker)
        else:
            self._worker_processes.remove(worker)

    def _on_crash(self, how: str, *, is_killed: bool = False) -> None:
        """Replace the worker, without the rule that it was evaluating; that one may stay if the worker was killed."""
        place = self._running_worker.status.read()[1]
        if how == _OUT_OF_MEMORY and len(self.specs) == 1:
            place = 0
        self._worker_processes.remove(self._running_worker)
        self._worker = None
        if is_killed and self._crashes < _MAX_CRASHES:
            self._crashes += 1
            culprits = []
        elif 0 <= place < len(self.specs):
            culprits = [self.specs.pop(place)]
        else:
            self._crashes += 1
            culprits = self.specs if self._crashes > _MAX_CRASHES else []
            self.specs = [] if culprits else self.specs
        for spec in culprits:
            if spec.alias not in self._removed:
                self._mark_failed(spec.alias, how)
        self.specs = [spec for spec in self.specs if spec.alias not in self._removed]
        self.is_finished, self._is_busy, self._has_work = not self.specs, False, True
        if self.specs:
            self.start(is_over=self._is_run_over)


def group_rules(specs: Iterable[RuleSpec]) -> list[list[RuleSpec]]:
    """Group rules by process: all built-in rules share one, each custom rule has its own."""
    built_in = [spec for spec in specs if spec.rule in BUILT_IN]
    others = [[spec] for spec in specs if spec.rule not in BUILT_IN]
    return [*([built_in] if built_in else []), *others]
