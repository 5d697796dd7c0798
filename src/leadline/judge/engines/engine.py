"""The interface of the engines, and the evaluation of one run that they share."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from leadline.errors import DamagedRunError, RunNotFoundError, UnknownNameError
from leadline.judge.judge import Judge
from leadline.judge.results import RuleResult
from leadline.judge.rule_pool import WorkerLimits, WorkerProcesses
from leadline.records.manifest import RuleSpec

ENGINES: Final = ("local", "ray")


@dataclass(frozen=True, slots=True)
class Task:
    """A run, and the rules to evaluate."""

    run: str
    """The absolute path of the run directory."""
    rules: tuple[RuleSpec, ...]


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


def make_engine(name: str, *, ray_address: str | None = None, limits: WorkerLimits | None = None) -> Engine:
    """Return the engine with a name.

    Raises:
        UnknownNameError: There is no such engine.
    """
    if name == "local":
        from leadline.judge.engines.local import LocalEngine

        return LocalEngine(limits=limits)
    if name == "ray":
        from leadline.judge.engines.ray import RayEngine

        return RayEngine(ray_address, limits=limits)
    raise UnknownNameError("engine", name, ENGINES)


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
