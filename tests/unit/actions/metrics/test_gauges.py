"""The gauges of a run: their values for rules and job."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leadline.actions.action import ActionContext, TrainingProgress
from leadline.actions.metrics.run_metrics import GAUGES, RunMetrics
from leadline.records.names import JOB_STATUSES
from leadline.records.notification import Notification, RuleState
from leadline.store import layout
from leadline.store.documents import make_folder, write_document


def state(name: str = "loss", **given: Any) -> RuleState:
    return RuleState(name, name, **{"status": "InProgress", "verdict": None} | given)


def make_context(
    run: Path, *rules: RuleState, step: int | None = None, worker_step: int | None = None
) -> ActionContext:
    notification = Notification("n", "rule_status", "a-run", str(run), "InProgress", 0, rules=rules, step=step)
    workers = () if worker_step is None else (TrainingProgress("rank0-1", worker_step, 0, 0.1, worker_step),)
    return ActionContext(str(run), notification, workers, 0)


def values(metrics: RunMetrics, name: str) -> dict[str, float]:
    return {"".join(each.labels.values()): each.value for each in metrics.samples() if each.name == name}


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (state(status="IssuesFound", verdict="fired", is_open=True), 1.0),
        (state(status="IssuesFound", verdict="fired"), 0.0),
        (state(verdict="clear"), 0.0),
        (state(status="NoIssuesFound", verdict="clear"), 0.0),
        (state(), math.nan),
        (state(status="NoIssuesFound", verdict="undecided"), math.nan),
        (state(status="Error"), math.nan),
        (state(status="Error", verdict="fired", is_open=True), math.nan),
    ],
)
def test_a_rule_is_1_while_a_finding_is_open_and_nan_while_undecided(rule: RuleState, value: float) -> None:
    assert rule.value == pytest.approx(value, nan_ok=True)


def test_there_are_no_gauges_before_the_first_notification() -> None:
    assert RunMetrics().samples() == []


def test_every_rule_has_the_gauge_of_the_last_notification(tmp_path: Path) -> None:
    metrics = RunMetrics()
    metrics.take(
        make_context(tmp_path, state("a", verdict="clear"), state("b", verdict="fired", is_open=True, findings=2))
    )
    assert (values(metrics, "rule_fired"), values(metrics, "job_findings")) == ({"a": 0.0, "b": 1.0}, {"": 2.0})
    metrics.take(make_context(tmp_path, state("a", verdict="fired", is_open=True, findings=1), state("b", findings=2)))
    assert values(metrics, "rule_fired")["a"] == 1.0
    assert math.isnan(values(metrics, "rule_fired")["b"])
    assert values(metrics, "job_findings") == {"": 3.0}
    assert {each.name for each in metrics.samples()} == set(GAUGES) - {"job_step"}


def test_the_job_has_its_current_status(tmp_path: Path) -> None:
    metrics = RunMetrics()
    metrics.take(make_context(tmp_path))
    assert values(metrics, "job_status") == {each: float(each == "InProgress") for each in JOB_STATUSES}
    write_document(str(tmp_path / layout.STATUS), {"status": "Failed"})
    assert values(metrics, "job_status") == {each: float(each == "Failed") for each in JOB_STATUSES}


def test_the_step_is_the_latest_known(tmp_path: Path) -> None:
    metrics = RunMetrics()
    metrics.take(make_context(tmp_path))
    assert values(metrics, "job_step") == {}  # unknown, not 0
    metrics.take(make_context(tmp_path, step=7))
    assert values(metrics, "job_step") == {"": 7.0}
    metrics.take(make_context(tmp_path, worker_step=9))
    metrics.take(make_context(tmp_path, step=8))
    assert values(metrics, "job_step") == {"": 9.0}
    make_folder(str(tmp_path / layout.WORKERS))
    write_document(str(tmp_path / layout.worker_document("rank0-1")), {"step": 12})
    assert values(metrics, "job_step") == {"": 12.0}


@pytest.mark.parametrize(("follows", "shown"), [("*", {"a", "b"}), ("a", {"a"}), ("job", set())])
def test_rules_that_are_not_followed_have_no_gauge(follows: str, shown: set[str], tmp_path: Path) -> None:
    metrics = RunMetrics()
    context = make_context(tmp_path, state("a", verdict="clear", findings=1), state("b", verdict="clear", findings=2))
    metrics.take(replace(context, follows=follows))
    assert values(metrics, "rule_fired").keys() == shown
    assert values(metrics, "job_findings") == {"": {"*": 3.0, "a": 1.0, "job": 0.0}[follows]}
