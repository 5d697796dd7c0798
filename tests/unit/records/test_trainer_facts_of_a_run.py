"""The plan of a trainer, and the checkpoint to go back to."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from leadline.records import describe
from leadline.records.documents import SavedCheckpoint, SummarizedRule, WorkerDocument
from leadline.records.trainer_facts import CheckpointToKeep, checkpoint_to_keep, planned_steps

SAVED = tuple(SavedCheckpoint(step, f"out/checkpoint-{step + 1}") for step in (99, 199, 299))
WORKERS = [WorkerDocument(), WorkerDocument(checkpoints=SAVED, planned_steps=1000)]


def fired(step: int | None, severity: str) -> SummarizedRule:
    return SummarizedRule(name=f"of {step}", rule="any", severity=severity, step=step)


def test_the_plan_is_that_of_any_worker() -> None:
    assert planned_steps(WORKERS) == 1000
    assert planned_steps([WorkerDocument()]) is None
    assert describe.steps({"eval": 12, "train": 3750}, 10_000) == "12 eval steps, 3,750 of 10,000 steps"
    assert describe.steps({"train": 1}, 1) == "1 step"


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ([], "out/checkpoint-300, after step 299"),
        ([fired(150, "advice"), fired(None, "fatal")], "out/checkpoint-300, after step 299"),
        (
            [fired(250, "warning"), fired(121, "fatal")],
            "out/checkpoint-100, after step 99: the last one before the first problem, at step 121",
        ),
        (  # a checkpoint of the step itself has its weights
            [fired(199, "fatal")],
            "out/checkpoint-100, after step 99: the last one before the first problem, at step 199",
        ),
        (
            [fired(3, "fatal")],
            "none from before the first problem, at step 3; the last one is out/checkpoint-300, after step 299",
        ),
    ],
)
def test_the_last_checkpoint_before_the_first_problem_is_kept(rules: list[SummarizedRule], text: str) -> None:
    kept = checkpoint_to_keep(WORKERS, rules)
    assert kept is not None
    assert kept.describe() == text
    assert CheckpointToKeep(**asdict(kept)) == kept


def test_without_checkpoints_there_is_none_to_keep() -> None:
    assert checkpoint_to_keep([WorkerDocument()], [fired(3, "fatal")]) is None
