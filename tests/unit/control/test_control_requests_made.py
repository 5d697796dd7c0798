"""Control requests from the command line, and their statuses while the job answers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import leadline
from leadline.config.capture import parse_capture
from leadline.config.options import parse_rule
from leadline.config.presets import merge, preset_items
from leadline.control.requests import (
    active_rules,
    ask,
    capture_request,
    captured_items,
    common_step,
    interval_request,
    profile_off_request,
    profile_request,
    remove_rule_request,
    rule_request,
    settings_requests,
    stop_request,
)
from leadline.control.responses import interval_ms, request_statuses
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.reader.run import Run
from leadline.records import describe
from leadline.records.manifest import RuleSpec
from leadline.records.request import Acknowledgement, Answer, ControlRequest, Stop, request_to_dict
from leadline.store import layout
from leadline.store.control import acknowledge, read_requests
from leadline.testing.runs import Capture, RunWriter


def live(tmp_path: Path, *rules: str) -> tuple[Run, RunWriter]:
    writer = RunWriter(str(tmp_path / "run"), rules=[RuleSpec(rule, rule) for rule in rules])
    writer.write_all([Capture(0, {"loss": {"value": 1.0}})])
    return Run(writer.path), writer


def answer(run: Run, request: ControlRequest, who: str, outcome: str = "taken", step: int = 7) -> None:
    acknowledge(run.uri, request.id, who, step, Answer.parse(outcome))


def test_a_job_that_has_ended_accepts_no_requests(tmp_path: Path) -> None:
    run, writer = live(tmp_path)
    writer.end()
    run.refresh()
    with pytest.raises(ConfigurationError, match="run is not running: it is Completed"):
        ask(run, stop_request(reason="test"))
    assert read_requests(run.uri) == []


def test_invalid_settings_are_refused_before_any_request() -> None:
    def unused() -> Run:
        raise AssertionError("no run is needed for this error")

    with pytest.raises(UnknownNameError, match="did you mean 'interval-ms'"):
        settings_requests(["interval-ms=100", "interval-m=5"], unused, reason="test")
    with pytest.raises(ConfigurationError, match="nothing to set"):
        settings_requests([], unused, reason="test")
    with pytest.raises(ConfigurationError, match="must be one of"):
        interval_request("150", reason="test")
    for grace in (-1.0, float("nan"), float("inf"), 1e9):
        with pytest.raises(ConfigurationError, match="at least 0"):
            stop_request(grace_seconds=grace, reason="test")


def test_the_default_profile_is_one_step_at_the_next_step() -> None:
    request = profile_request(reason="test")
    (window,) = request.windows
    assert (window.kind, window.step, window.steps, window.seconds) == ("detailed", None, None, None)
    assert window.describe() == "detailed from the next step, 1 step"
    assert request_to_dict(request)["parameters"] == {"windows": (window.to_dict(),), "off": False}
    windows = profile_request(python="cprofile:cpu", has_loader=True, at="120", length="10s", reason="test").windows
    assert [(window.kind, window.timer, window.step, window.seconds) for window in windows] == [
        ("cprofile", "cpu", 120, 10.0),
        ("dataloader", "total", 120, 10.0),
    ]


def test_a_rule_request_contains_the_captures_missing_from_the_plan(tmp_path: Path) -> None:
    run, _ = live(tmp_path, "loss_spike")
    request = rule_request(parse_rule("small=vanishing_gradient:threshold=1e-9"), run, reason="test")
    (spec,), (item,) = request.rules, request.items
    assert (spec.alias, spec.rule, spec.parameters) == ("small", "vanishing_gradient", {"threshold": 1e-9})
    assert (item.collection, item.statistics, item.source) == ("gradients", ("abs_mean",), "rule:small")
    with pytest.raises(ConfigurationError, match="already has a rule named 'loss_spike'"):
        rule_request(parse_rule("loss_spike"), run, reason="test")
    with pytest.raises(UnknownNameError, match="did you mean 'threshold'"):
        rule_request(parse_rule("vanishing_gradient:treshold=1"), run, reason="test")
    assert active_rules(run) == {"loss_spike": "loss_spike"}


def planned(tmp_path: Path, *captures: str) -> Run:
    """A running job with the preset ``light`` and some options."""
    plan = merge(preset_items("light"), [parse_capture(text) for text in captures], (), root=str(tmp_path))
    rules = (RuleSpec("exploding_tensor", "exploding_tensor"),)
    return Run(
        RunWriter(tmp_path / "run", plan=plan, rules=rules).write_all([Capture(0, {"loss": {"value": 1.0}})]).path
    )


def schedules(run: Run, collection: str) -> set[tuple[int | None, tuple[str, ...]]]:
    """Interval and modes of what a run captures of a collection, after all requests."""
    return {(item.schedule.every, item.modes) for item in captured_items(run) if item.collection == collection}


def test_a_capture_request_changes_when_a_collection_is_captured(tmp_path: Path) -> None:
    run = planned(tmp_path, "gradients:every=2,statistics=l2")
    before = [item for item in captured_items(run) if item.collection != "gradients"]
    ask(run, rule_request(parse_rule("small=vanishing_gradient:threshold=1e-9"), run, reason="test"))
    assert schedules(run, "gradients") == {(every, ("train",)) for every in (2, 50, 100)}
    request = ask(run, capture_request("gradients:every=500", run, reason="test"))
    assert describe.request(request) == "capture gradients every 500 steps"
    changed = [item for item in captured_items(run) if item.collection == "gradients"]
    assert schedules(run, "gradients") == {(500, ("train",))}
    assert {item.source for item in changed} == {"preset", "option", "rule:small"}, "statistics of rules are kept"
    assert [item for item in captured_items(run) if item.collection != "gradients"] == before
    ask(run, capture_request("gradients:every=7,statistics=max", run, reason="test"))
    assert schedules(run, "gradients") == {(500, ("train",)), (7, ("train",))}, "other statistics are added"
    removal = ask(run, capture_request("-gradients", run, reason="test"))
    assert describe.request(removal) == "no longer capture gradients"
    assert schedules(run, "gradients") == set()
    with pytest.raises(UnknownNameError, match="no captured collection named 'gradients'"):
        capture_request("-gradients", run, reason="test")
    ask(run, capture_request("gradients:every=50", run, reason="test"))
    assert schedules(run, "gradients") == {(50, ("train",))}


def test_a_capture_request_for_one_mode_leaves_the_others(tmp_path: Path) -> None:
    run = planned(tmp_path)
    ask(run, capture_request("losses:every=10,modes=train", run, reason="test"))
    assert schedules(run, "losses") == {(10, ("train",)), (1, ("eval", "predict"))}


def test_a_removed_rule_takes_along_what_only_it_needs(tmp_path: Path) -> None:
    run = planned(tmp_path)
    before = captured_items(run)
    for text in ("small=vanishing_gradient:threshold=1e-9", "other=vanishing_gradient", "more=weight_update_ratio"):
        ask(run, rule_request(parse_rule(text), run, reason="test"))
    with_rules = captured_items(run)
    request = remove_rule_request("small", run, reason="test")
    assert (request.rules, request.items) == (("small",), ()), "the rule 'other' needs the same"
    assert describe.request(ask(run, request)) == "remove rule small"
    assert captured_items(run) == with_rules
    for name in ("other", "more"):
        ask(run, remove_rule_request(name, run, reason="test"))
    assert captured_items(run) == before
    with pytest.raises(UnknownNameError, match="no rule of this run named 'small'"):
        remove_rule_request("small", run, reason="test")
    assert remove_rule_request("exploding_tensor", run, reason="test").rules == ("exploding_tensor",)


def test_the_status_of_each_request(tmp_path: Path) -> None:
    run, writer = live(tmp_path)
    writer.write_worker("rank0-1")
    interval = ask(run, interval_request("100", reason="test"))
    (waiting,) = request_statuses(run)
    assert (waiting.state, waiting.what, waiting.answers) == ("waiting", "sample the machine every 100 ms", ())
    assert interval_ms(run) == 500, "a pending request has no effect"
    answer(run, interval, "agent-node", step=-1)
    assert interval_ms(run) == 100
    profile = ask(run, profile_request(reason="test"))
    answer(run, profile, "rank0-1", "refused: another profiler runs here")
    off = ask(run, profile_off_request(reason="test"))
    last, refused, accepted = request_statuses(run)
    assert (last.request.id, last.state) == (off.id, "waiting")
    assert (refused.state, refused.answers[0].step) == ("refused", 7)
    assert (accepted.state, accepted.answers[0].worker, accepted.answers[0].step) == ("taken", "agent-node", -1)
    writer.end()
    run.refresh()
    assert [status.state for status in request_statuses(run)] == ["missed", "refused", "taken"]


def test_a_stop_is_accepted_by_a_job_that_cannot_answer(tmp_path: Path) -> None:
    run, writer = live(tmp_path)
    ask(run, stop_request(reason="test"))
    writer.set_status("Stopping", stopped_by="user")
    run.refresh()
    assert request_statuses(run)[0].state == "taken"


@pytest.mark.parametrize(("interval", "text"), [(100, "100 ms"), (1000, "1 s"), (5000, "5 s"), (60_000, "1 min")])
def test_format_interval(interval: int, text: str) -> None:
    assert describe.interval(interval) == text


@pytest.mark.parametrize(
    ("worker", "outcome", "text"),
    [
        ("agent-vm", "taken", "accepted by host vm"),
        ("rank0-7", "taken: captures losses", "accepted by rank 0: captures losses"),
        ("rank0-7", "taken: a; refused: b", "accepted by rank 0: a; refused: b"),
        ("rank0-7", "refused: another profiler runs here", "refused by rank 0: another profiler runs here"),
        ("judge", "failed: no memory", "failed on judge: no memory"),
    ],
)
def test_format_answer(worker: str, outcome: str, text: str) -> None:
    assert describe.response(Acknowledgement("1", worker, 3, 0, Answer.parse(outcome))) == text


def test_several_workers_stop_at_one_step_that_none_has_reached(tmp_path: Path) -> None:
    writer, now = RunWriter(tmp_path / "run"), time.time_ns()

    def worker(name: str, step: int, seconds: float, age_seconds: float = 0.0) -> None:
        made = {"step": step, "loop_ns": round(seconds * 1e9 * (step + 1)), "time_ns": now - round(age_seconds * 1e9)}
        writer.write_worker(name, node="elsewhere", **made)

    worker("rank0-1", 99, 0.01)
    assert common_step(writer.path, 30.0) is None, "one worker stops at its next step"
    worker("rank1-2", 90, 0.01)
    asked = ask(leadline.open_run(writer.path), stop_request(reason="test"))
    assert isinstance(asked, Stop)
    assert asked.step is not None
    assert 99 + 50 < asked.step < 99 + 300
    worker("rank1-2", 90, 0.01, age_seconds=600.0)
    step = common_step(writer.path, 30.0)
    assert step is not None
    assert step < 99 + 4000, "the clock of its node is ten minutes late"
    assert common_step(writer.path, 0.1) is None, "they could not stop within the grace period"
    Path(writer.path, layout.OTHERS).write_text('["workers/rank1-2"]')
    worker("rank1-2", 90, 0.01)
    step = common_step(writer.path, 30.0)
    assert step is not None
    assert step > 99 + 1500, "the request takes seconds through the store"
    writer.write_worker("rank1-2", node="elsewhere", state="ended")
    assert common_step(writer.path, 30.0) is None
