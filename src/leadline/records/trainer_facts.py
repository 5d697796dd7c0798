"""What trainers have told: the steps that they plan, and the checkpoint to go back to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from leadline.records.documents import SummarizedRule, WorkerDocument

_CHECKPOINT: Final = re.compile(r"the checkpoint of step (\d+(?:,\d{3})*)")


@dataclass(frozen=True, slots=True)
class CheckpointToKeep:
    """The last checkpoint of a run before its first problem; the last one if there is no problem, or none before it."""

    path: str
    step: int
    """The train step after which it was saved."""
    problem_step: int | None = None
    """The train step of the first problem; None: there is none."""

    @property
    def is_before_problem(self) -> bool:
        """Whether the weights in it are those from before the first problem."""
        return self.problem_step is None or self.step < self.problem_step

    def describe(self) -> str:
        """``out/checkpoint-100, after step 99: the last one before the first problem, at step 121``."""
        place = f"{self.path}, after step {self.step:,}"
        if self.problem_step is None:
            return place
        if self.is_before_problem:
            return f"{place}: the last one before the first problem, at step {self.problem_step:,}"
        return f"none from before the first problem, at step {self.problem_step:,}; the last one is {place}"


def planned_steps(workers: Iterable[WorkerDocument]) -> int | None:
    """Return the train steps that there will be when the trainer has carried out its plan; None: it is not known."""
    return max((worker.planned_steps for worker in workers if worker.planned_steps is not None), default=None)


def checkpoint_to_keep(workers: Iterable[WorkerDocument], fired: Iterable[SummarizedRule]) -> CheckpointToKeep | None:
    """Return the checkpoint to go back to; None: no trainer has told of any.

    Args:
        fired: The rules that fired; advice is no problem.
    """
    saved = next((worker.checkpoints for worker in workers if worker.checkpoints), ())
    if not saved:
        return None
    problem = min((rule.step for rule in fired if rule.severity != "advice" and rule.step is not None), default=None)
    before = [checkpoint for checkpoint in saved if problem is None or checkpoint.step < problem]
    kept = (before or list(saved))[-1]
    return CheckpointToKeep(kept.path, kept.step, problem)


def with_checkpoint_name(advice: str, workers: Iterable[WorkerDocument]) -> str:
    """Return advice with the name that the trainer has given to the checkpoint of a step, if it has saved one there.

    ``the checkpoint of step 79 (checkpoint-80)``: the trainer counts the updates until then, Leadline from 0.
    """
    saved = {checkpoint.step: checkpoint.path for worker in workers for checkpoint in worker.checkpoints}

    def named(found: re.Match[str]) -> str:
        path = saved.get(int(found[1].replace(",", "")), "")
        return f"{found[0]} ({path.rstrip('/').rpartition('/')[2]})" if path else found[0]

    return _CHECKPOINT.sub(named, advice)
