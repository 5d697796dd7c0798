"""stop_training: the step of the stop, and dry runs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from leadline.actions.action import ActionContext, TrainingProgress
from leadline.actions.registry import find_action, make_action
from leadline.actions.stop_training import StopTraining, stop_step
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.notification import Notification
from leadline.records.request import Stop
from leadline.store import control, layout

SECOND_NS = 1_000_000_000
NOTICE = Notification(
    "e/opened/7", "finding", "a", "/a", "IssuesFound", 0, rule="e", step=7, global_step=7, message="loss is NaN"
)


def progress(step: int, seconds_per_step: float = 0.1, worker: str = "rank0-1", time_ns: int = 0) -> TrainingProgress:
    return TrainingProgress(worker, step, time_ns, seconds_per_step, step)


def test_one_worker_stops_at_its_next_boundary() -> None:
    assert stop_step([progress(9)], now_ns=60 * SECOND_NS, at_least=8) == 10
    assert stop_step([], now_ns=0, at_least=8) == 8
    assert stop_step([progress(3)], now_ns=0, at_least=8) == 8


@pytest.mark.parametrize(
    ("others", "now_ns", "step"),
    [
        ([progress(9, 10.0), progress(9, 10.0)], 0, 11),
        ([progress(9, 0.0), progress(4, 0.0)], 0, 11),
        ([progress(100, 0.01), progress(90, 0.01)], 0, 151),
        ([progress(100, 0.1), progress(90, 0.1)], 1 * SECOND_NS, 116),
        ([replace(progress(100, 0.1), is_average=True), progress(90, 0.1)], 0, 121),  # the latest ones may be faster
    ],
)
def test_several_workers_all_stop_at_the_same_step(others: list[TrainingProgress], now_ns: int, step: int) -> None:
    assert stop_step(others, now_ns=now_ns, at_least=8) == step


def make_context(path: Path) -> ActionContext:
    os.makedirs(path / layout.ACKS)
    return ActionContext(str(path), NOTICE, (progress(9),), SECOND_NS)


def test_the_request_has_origin_and_reason(tmp_path: Path) -> None:
    outcome = StopTraining(grace=3.0).run(make_context(tmp_path))
    (request,) = control.read_requests(str(tmp_path))
    assert isinstance(request, Stop)
    assert (request.kind, request.step, request.by, request.reason) == ("stop", 10, "rule:e", "loss is NaN")
    assert request.grace_seconds == 3.0
    assert (outcome.step, outcome.request, outcome.announcement) == (10, request.id, "stopping at the next step")


def test_the_step_is_announced_where_several_workers_stop_at_it(tmp_path: Path) -> None:
    context = replace(make_context(tmp_path), workers=(progress(9, 0.5), progress(8, 0.5)))
    outcome = StopTraining().run(context)
    assert outcome.announcement == f"stopping at step {outcome.step}"
    assert outcome.step == stop_step(context.workers, now_ns=context.now_ns, at_least=8)


def test_a_dry_run_makes_no_request(tmp_path: Path) -> None:
    assert StopTraining(dry_run=True).describe(make_context(tmp_path)) == "would ask to stop at step 10"
    assert control.read_requests(str(tmp_path)) == []


def test_actions_are_found_by_both_names_and_read_strictly() -> None:
    assert find_action("StopTraining") is find_action("stop_training") is StopTraining
    assert make_action("stop_training", {"grace": "7", "dry_run": "true"}) == StopTraining(grace=7.0, dry_run=True)
    with pytest.raises(UnknownNameError, match="did you mean 'stop_training'"):
        find_action("stop_trainin")
    with pytest.raises(ConfigurationError, match="grace must be a number >= 0, not 'soon'"):
        make_action("stop_training", {"grace": "soon"})


def test_the_message_counts_train_steps_and_the_request_all_steps(tmp_path: Path) -> None:
    os.makedirs(tmp_path / layout.ACKS)
    worker = TrainingProgress("rank0-1", 554, 0, 0.1, 503)
    notice = replace(NOTICE, step=500, global_step=550)
    outcome = StopTraining().run(ActionContext(str(tmp_path), notice, (worker,), SECOND_NS))
    (request,) = control.read_requests(str(tmp_path))
    assert isinstance(request, Stop)
    assert (request.step, outcome.step, outcome.outcome) == (555, 504, "stop requested at step 504")
