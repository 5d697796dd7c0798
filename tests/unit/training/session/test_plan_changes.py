"""Changes of what a worker captures while it runs."""

from __future__ import annotations

from pathlib import Path

from leadline.instrumentation.step_context import StepContext
from leadline.records.plan import CaptureItem, Schedule
from leadline.records.request import AddRules, ChangeCapture, RemoveRules
from leadline.store.control import read_acknowledgements
from leadline.training.recorder.control_requests import PlanChanges

ITEM = CaptureItem("gradients", statistics=("abs_mean",), schedule=Schedule(every=10), source="rule:small")


def make(run: Path, changes: list[int], *items: CaptureItem) -> PlanChanges:
    context = StepContext(str(run), lambda: "rank0-1")
    context.clock.step = 8
    return PlanChanges(context, items, lambda: changes.append(1))


def test_new_items_are_captured_once_and_acknowledged(tmp_path: Path) -> None:
    changes: list[int] = []
    captures = make(tmp_path, changes)
    captures.handle(AddRules("1", items=(ITEM,)))
    captures.handle(AddRules("2", items=(ITEM,)))
    captures.handle(AddRules("3"))
    assert (captures.items, changes) == ((ITEM,), [1])
    assert [
        (answer.worker, answer.step, str(answer.answer)) for (answer,) in read_acknowledgements(str(tmp_path)).values()
    ] == [
        ("rank0-1", 7, "taken: also captures abs_mean of gradients"),
        ("rank0-1", 7, "taken: already captured"),
        ("rank0-1", 7, "taken: no further captures needed"),
    ]


def test_a_change_is_refused_where_all_ranks_must_capture_at_the_same_steps(tmp_path: Path) -> None:
    context = StepContext(str(tmp_path), lambda: "rank0-1")
    captures = PlanChanges(context, (), lambda: None, lambda: True)
    captures.handle(AddRules("1", items=(ITEM,)))
    captures.handle(AddRules("2"))
    assert captures.items == ()
    (refused,), (taken,) = read_acknowledgements(str(tmp_path)).values()
    assert str(refused.answer) == "refused: a job of several JAX processes captures what it was started with"
    assert str(taken.answer) == "taken: no further captures needed"


def test_items_are_replaced_and_removed(tmp_path: Path) -> None:
    changes: list[int] = []
    weights = CaptureItem("weights", statistics=("l2",), schedule=Schedule(every=1), source="preset")
    rare = CaptureItem("weights", statistics=("l2",), schedule=Schedule(every=500), source="preset")
    captures = make(tmp_path, changes, ITEM, weights)
    captures.handle(ChangeCapture("1", collection="weights", removed=(weights,), added=(rare,)))
    assert captures.items == (ITEM, rare)
    captures.handle(RemoveRules("2", rules=("small",), items=(ITEM,)))
    assert captures.items == (rare,)
    captures.handle(RemoveRules("3", rules=("other",)))
    captures.handle(ChangeCapture("4", collection="weights", removed=(rare,)))
    assert (captures.items, changes) == ((), [1, 1, 1])
    assert [answer.answer.reason for (answer,) in read_acknowledgements(str(tmp_path)).values()] == [
        "captures weights every 500 steps",
        "no longer captures abs_mean of gradients",
        "captures the same as before",
        "no longer captures weights",
    ]
