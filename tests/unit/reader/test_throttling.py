"""Throttling events in the timeline and their effect on rules."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.judge.evaluator import Evaluator
from leadline.reader.throttling import ThrottlingHistory, why_undecided
from leadline.reader.window import Window
from leadline.records.event import Event
from leadline.records.needs import Needs, TensorNeed
from leadline.records.plan import CaptureItem, CapturePlan, Schedule
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.store import layout
from leadline.store.documents import read_document, write_document
from leadline.testing.runs import START_NS, Capture, Part, RunWriter, TimelineEvent

GRADIENT = "gradient/a.weight"


class Gradients(Rule, frozen=True, kw_only=True):
    """Fires when the mean absolute gradient is above 10."""

    collections: tuple[str, ...] = ("gradients",)

    def needs(self) -> Needs:
        return Needs(tuple(TensorNeed(each, statistics=("abs_mean", "value")) for each in self.collections))

    def evaluate(self, window: Window) -> Verdict:
        if window.readings("abs_mean", where=lambda values: values > 10):
            return Fired("too large")
        return Undecided("part of it is missing") if window.is_incomplete else Clear()


def throttled(
    since: int, to: int, *, every: int = 1, sources: tuple[str, ...] = ("preset",), **more: object
) -> TimelineEvent:
    args = {
        "collection": "gradients",
        "statistics": ["abs_mean"],
        "raw": False,
        "mode": "train",
        "sources": ["preset"],
        "from_every": every,
        "to_every": to,
        "since_step": since,
        **more,
    }
    return TimelineEvent(Event("capture_thinned", since - 1, START_NS, args=args))


def run_parts(steps: int, *, since: int, to: int, until: int | None = None, value: float = 1.0) -> list[Part]:
    """Losses and gradients of every step; from ``since`` to ``until`` gradients of every ``to``-th step only."""
    parts: list[Part] = []
    for step in range(steps):
        if step == since:
            parts.append(throttled(since, to))
        if step == until:
            parts.append(throttled(step, 1))
        parts.append(Capture(step, {"loss": {"value": 1.0}}))
        is_incomplete = step >= since and (until is None or step < until)
        if not is_incomplete or step % to == 0:
            parts.append(Capture(step, {GRADIENT: {"abs_mean": value}}))
    return parts


def write(path: Path, parts: Iterable[Part], items: tuple[CaptureItem, ...] = ()) -> str:
    writer = RunWriter(path).write_all(list(parts)).end()
    plan(path, items)
    return writer.path


def plan(path: Path, items: tuple[CaptureItem, ...]) -> None:
    place = str(path / layout.MANIFEST)
    write_document(place, {**read_document(place), "plan": CapturePlan(items).to_dict()})


def judge(path: str, rule: Rule | None = None, alias: str = "mine") -> dict[str, object]:
    judging = Evaluator(path, [(alias, rule or Gradients())], started_ns=START_NS)
    return judging.advance(is_over=True).rules[alias]


def test_a_rule_with_throttled_steps_is_undecided_with_a_reason(tmp_path: Path) -> None:
    state = judge(write(tmp_path / "run", run_parts(20, since=9, to=4)))
    assert (state["verdict"], state["judged_steps"]) == ("undecided", 9 + 2)
    assert state["why"] == (
        "gradients throttled since step 9 to stay within the overhead budget: every 4 steps instead of every step; "
        "--budget off disables throttling"
    )


def test_a_rule_on_other_tensors_is_clear(tmp_path: Path) -> None:
    path = write(tmp_path / "run", run_parts(20, since=9, to=4))
    assert judge(path, Gradients(collections=("losses",)))["verdict"] == "clear"


def test_findings_are_kept_despite_throttling(tmp_path: Path) -> None:
    assert judge(write(tmp_path / "run", run_parts(20, since=9, to=4, value=11.0)))["verdict"] == "fired"


@pytest.mark.parametrize(("steps", "since", "to", "until"), [(9, 9, 4, None), (13, 12, 4, None), (20, 8, 4, 9)])
def test_a_rule_is_clear_if_every_requested_step_was_captured(
    tmp_path: Path, steps: int, since: int, to: int, until: int | None
) -> None:
    assert judge(write(tmp_path / "run", run_parts(steps, since=since, to=to, until=until)))["verdict"] == "clear"


def test_temporary_throttling_is_remembered(tmp_path: Path) -> None:
    state = judge(write(tmp_path / "run", run_parts(60, since=8, to=4, until=12)))
    assert state["verdict"] == "undecided"


def test_rules_of_the_plan_are_affected_by_their_own_items(tmp_path: Path) -> None:
    """A rule on every step is throttled; a rule on every fourth step is not affected."""
    items = tuple(
        CaptureItem("gradients", None, ("abs_mean",), schedule=Schedule(every=every), source=source)
        for source, every in (("rule:often", 1), ("rule:seldom", 4))
    )
    parts = [replace_sources(part, "rule:often") for part in run_parts(20, since=9, to=4)]
    path = write(tmp_path / "run", parts, items)
    assert judge(path, alias="often")["verdict"] == "undecided"
    assert judge(path, alias="seldom")["verdict"] == "clear"
    assert judge(path, alias="afterwards")["verdict"] == "clear"


def replace_sources(part: Part, *sources: str) -> Part:
    if not isinstance(part, TimelineEvent):
        return part
    return replace(part, event=replace(part.event, args={**part.event.args, "sources": list(sources)}))


def test_a_window_with_throttled_captures_is_incomplete(tmp_path: Path) -> None:
    both = Gradients(collections=("gradients", "losses"))
    judging = Evaluator(write(tmp_path / "run", run_parts(20, since=9, to=4)), [("it", both)], started_ns=START_NS)
    assert judging.advance(is_over=True).rules["it"]["judged_steps"] == 20
    (track,) = judging._tracks
    assert track.clear_steps == 9 + 2


def test_live_results_equal_those_afterwards(tmp_path: Path) -> None:
    parts = [
        *run_parts(30, since=9, to=4),
        throttled(30, 8),
        *(Capture(s, {"loss": {"value": 1.0}}) for s in range(30, 40)),
    ]
    writer = RunWriter(tmp_path / "live")
    live = Evaluator(writer.path, [("it", Gradients())], started_ns=START_NS)
    states: dict[str, dict] = {}
    for count, _ in enumerate(writer.grow(parts)):
        if count % 3 == 0:
            states |= live.advance().rules
    writer.end()
    states |= live.advance(is_over=True).rules
    assert states["it"] == judge(write(tmp_path / "once", parts), alias="it")
    assert "every 8 steps" in states["it"]["why"]


@settings(deadline=None, max_examples=40)
@given(
    changes=st.lists(st.tuples(st.integers(1, 9), st.sampled_from([1, 2, 4, 8])), max_size=5),
    sources=st.sampled_from([("preset",), ("rule:it",), ("rule:another",)]),
    cuts=st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5)),
)
def test_throttling_equals_a_plain_loop(
    changes: list[tuple[int, int]], sources: tuple[str, ...], cuts: tuple[int, int, int]
) -> None:
    """For any changes of the interval, and any split of the run."""
    starts, step = {}, 0
    for pause, to in changes:
        step += pause
        starts[step] = to
    parts: list[Part] = []
    interval, has_missed = 1, False
    for step in range(45):
        if step in starts:
            interval = starts[step]
            parts.append(replace_sources(throttled(step, interval), *sources))
        is_captured = step % interval == 0
        has_missed = has_missed or not is_captured
        parts.append(Capture(step, {"loss": {"value": 1.0}, **({GRADIENT: {"abs_mean": 1.0}} if is_captured else {})}))
    is_concerned = has_missed and "rule:another" not in sources
    planned = (CaptureItem("gradients", None, ("abs_mean",), source="rule:it"),) if "rule:it" in sources else ()
    rows, batches, look = cuts
    with tempfile.TemporaryDirectory() as folder:
        once = judge(write(Path(folder, "once"), parts, planned), alias="it")
        assert once["verdict"] == ("undecided" if is_concerned else "clear")
        writer = RunWriter(Path(folder, "live"), batch_rows=rows, segment_batches=batches)
        plan(Path(writer.path), planned)
        live, states = Evaluator(writer.path, [("it", Gradients())], started_ns=START_NS), {}
        for count, _ in enumerate(writer.grow(parts)):
            if count % look == 0:
                states |= live.advance().rules
        writer.end()
        assert (states | live.advance(is_over=True).rules)["it"] == once


def test_a_late_event_gives_the_same_result(tmp_path: Path) -> None:
    parts = run_parts(20, since=9, to=4)
    event = next(part for part in parts if isinstance(part, TimelineEvent))
    writer = RunWriter(tmp_path / "live")
    live = Evaluator(writer.path, [("it", Gradients())], started_ns=START_NS)
    writer.write_all([part for part in parts if part is not event])
    assert live.advance().rules["it"]["verdict"] == "clear"
    writer.write_all([event])
    writer.end()
    assert live.advance(is_over=True).rules["it"]["verdict"] == "undecided"


def test_the_reason_contains_every_collection_and_the_widest_interval() -> None:
    throttling = ThrottlingHistory(frozenset())
    for collection, to in (("gradients", 100), ("weights", 400)):
        args = {**throttled(51, to, every=50).event.args, "collection": collection}
        throttling.add("rank0-1", json.loads(json.dumps(args)))
    found = throttling.affecting("any", [TensorNeed("all", statistics=("abs_mean",))])
    assert why_undecided(found) == (
        "gradients and weights throttled since step 51 to stay within the overhead budget: "
        "every 400 steps instead of every 50; --budget off disables throttling"
    )


def test_the_reason_contains_intervals_in_seconds() -> None:
    throttling = ThrottlingHistory(frozenset())
    args = throttled(5, 1, from_seconds=2.0, to_seconds=8.0).event.args | {"from_every": None, "to_every": None}
    throttling.add("rank0-1", args)
    (found,) = throttling.affecting("any", [TensorNeed("gradients", statistics=("abs_mean",))])
    assert (found.has_missed_by("train", 5), found.has_missed_by("train", 6)) == (False, True)
    assert "every 8 s instead of every 2 s" in why_undecided([found])


def test_other_modes_are_not_affected() -> None:
    throttling = ThrottlingHistory(frozenset())
    throttling.add("rank0-1", throttled(5, 8, mode="eval").event.args)
    need = TensorNeed("gradients", statistics=("abs_mean",))
    assert throttling.affecting("any", [need])
    assert not throttling.affecting("any", [replace(need, modes=("train",))])
