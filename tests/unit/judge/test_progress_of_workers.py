"""The training progress and speed of the workers of a run."""

from __future__ import annotations

from leadline.actions.action import TrainingProgress
from leadline.judge.delivery import WorkerProgress
from leadline.records.documents import WorkerDocument

SECOND_NS = 1_000_000_000


def test_the_speed_of_every_running_worker() -> None:
    pace = WorkerProgress()
    for step in range(0, 40, 2):
        pace.update({"rank0-1": (step, step * SECOND_NS // 10), "rank1-2": (step, step * SECOND_NS // 5)})
    pace.update({"rank0-1": (38, 99 * SECOND_NS)})  # nothing new
    assert pace.progress({}, gone=["rank1-2"]) == (TrainingProgress("rank0-1", 38, 38 * SECOND_NS // 10, 0.1, 38),)
    assert [each.seconds_per_step for each in pace.progress({}, gone=())] == [0.1, 0.2]


def test_the_document_of_a_worker_may_know_a_later_step() -> None:
    pace = WorkerProgress()
    pace.update({"rank0-1": (3, 30)})
    known = WorkerDocument(steps={"train": 3, "eval": 3}, step=5, time_ns=50)
    documents = {"rank0-1": known, "rank1-2": WorkerDocument(), "rank2-3": WorkerDocument()}
    assert pace.progress(documents, gone=()) == (
        TrainingProgress("rank0-1", 5, 50, 0.0, 2, is_average=True),
        TrainingProgress("rank1-2", -1, 0, 0.0, is_average=True),
        TrainingProgress("rank2-3", -1, 0, 0.0, is_average=True),
    )


def test_a_judge_that_begins_beside_a_training_knows_how_fast_its_steps_may_be() -> None:
    """Without that, ranks with short steps would pass the step at which they are to stop together."""
    pace = WorkerProgress()
    pace.update({"rank0-1": (99, 7)})
    documents = {"rank0-1": WorkerDocument(step=99, time_ns=7, loop_ns=2 * SECOND_NS)}
    assert pace.progress(documents, gone=()) == (TrainingProgress("rank0-1", 99, 7, 0.02, 99, is_average=True),)
