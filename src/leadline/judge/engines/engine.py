"""What an engine is asked and answers, and what each of them does with one run."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from leadline.errors import DamagedRunError, RunNotFoundError, UnknownNameError
from leadline.judge.judge import Judge, RuleResult
from leadline.judge.rule_pool import WorkerLimits
from leadline.judge.worker_processes import WorkerProcesses
from leadline.records.manifest import RuleSpec

ENGINES: Final = ("local", "ray")


@dataclass(frozen=True, slots=True)
class Task:
    """A run, and the rules to judge it by."""

    run: str
    """Its folder, absolute."""
    rules: tuple[RuleSpec, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of one run."""

    run: str
    rules: tuple[RuleResult, ...] = ()
    damage: tuple[str, ...] = ()
    """One line for each part of the run that could not be read."""
    problem: str = ""
    """Why it could not be judged."""


class Engine(Protocol):
    """Judges stored runs; nothing is written into them and no action is done.

    Promises: every task is answered once, in any order. What a rule does to its process (raising, hanging, wanting
    memory) is its own Error and nobody else's. Closing the generator ends all that was started, at once.
    """

    def judge(self, tasks: Sequence[Task]) -> Generator[Judged, None, None]:
        """Judge runs, and tell of each as it comes.

        Raises:
            MissingExtraError: What the engine runs on is not installed.
            ConfigurationError: It cannot be reached.
        """


def make_engine(name: str, *, ray_address: str | None = None, limits: WorkerLimits | None = None) -> Engine:
    """The engine of a name.

    Raises:
        UnknownNameError: There is none.
    """
    if name == "local":
        from leadline.judge.engines.local import LocalEngine

        return LocalEngine(limits=limits)
    if name == "ray":
        from leadline.judge.engines.ray import RayEngine

        return RayEngine(ray_address, limits=limits)
    raise UnknownNameError("engine", name, ENGINES)


def judge_one(task: Task, limits: WorkerLimits, seats: WorkerProcesses) -> Judged:
    """Judge one run as it stands, its rules in processes taken from ``seats``."""
    try:
        results = Judge(task.run, task.rules, is_written=False, limits=limits, seats=seats).judge(follow=False)
    except (RunNotFoundError, DamagedRunError) as error:
        return Judged(task.run, problem=str(error))
    except OSError as error:
        return Judged(task.run, problem=f"{task.run} cannot be read: {error.strerror or error}")
    return Judged(task.run, results.rules, results.damage)
