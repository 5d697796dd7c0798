"""operator_time: its bounds, a plain loop over the calls as oracle, live and afterwards."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.judge.evaluator import Evaluator
from leadline.profiles import operator_times
from leadline.rules.system.operator_time import OperatorTime
from leadline.store.documents import encode
from leadline.testing.runs import SECOND_NS, START_NS, Capture, DetailedProfile, Part, RunWriter, SystemSample

CALLS = 30


def window(number: int, **lengths_ms: float) -> DetailedProfile:
    """Calls of each operator, one after the other, in a step of one second; the windows are two seconds apart."""
    calls = [
        (operator, index * 30.0 + place * 10.0, length)
        for place, (operator, length) in enumerate(lengths_ms.items())
        for index in range(CALLS)
    ]
    return DetailedProfile(f"w{number}", number, START_NS + number * 2 * SECOND_NS, calls, step_ms=1000.0)


def judged(parts: Sequence[Part], **parameters: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        path = RunWriter(f"{folder}/run").write_all(parts).end().path
        progress = Evaluator(path, [("it", OperatorTime(**parameters))], started_ns=START_NS).advance(is_over=True)
    return progress.rules["it"], [event for _, event in progress.events]


def opened(parts: Sequence[Part], **parameters: Any) -> dict[str, Any]:
    return next(event for event in judged(parts, **parameters)[1] if event["event"] == "opened")


def test_a_share_of_exactly_the_threshold_is_clear_and_more_is_not() -> None:
    assert judged([window(1, conv=10.0)], share_threshold=0.3)[0]["verdict"] == "clear"
    finding = opened([window(1, conv=10.0)], share_threshold=0.29)
    assert finding["evidence"]["share"] == pytest.approx(0.3)
    assert "conv on cpu takes 30 % of the time of train steps 1 to 1" in finding["message"]


def test_growth_of_exactly_the_threshold_is_clear_and_more_is_not() -> None:
    assert judged([window(1, conv=4.0), window(2, conv=6.0)])[0]["verdict"] == "clear"
    finding = opened([window(1, conv=4.0), window(2, conv=6.1)])
    assert finding["evidence"]["growth"] == pytest.approx(6.1 / 4.0)
    assert "1.52 times as long as before" in finding["message"]


def test_the_time_of_called_operators_is_not_counted() -> None:
    outer = DetailedProfile("w1", 0, START_NS, [("outer", 0.0, 90.0), ("inner", 5.0, 50.0)], step_ms=100.0)
    finding = opened([outer], share_threshold=0.45)
    assert (finding["tensors"], finding["evidence"]["share"]) == (("inner",), pytest.approx(0.5))


def test_growth_of_a_cheap_operator_is_ignored() -> None:
    assert judged([window(1, tiny=0.01), window(2, tiny=3.0)])[0]["verdict"] == "clear"
    assert judged([window(1, tiny=0.01), window(2, tiny=4.0)])[0]["verdict"] == "fired"


def test_workers_are_compared_with_their_own_past() -> None:
    other = DetailedProfile(
        "w2", 2, START_NS + 4 * SECOND_NS, window(2, conv=9.0).calls, step_ms=1000.0, worker="rank1-2"
    )
    assert judged([window(1, conv=4.0), other])[0]["verdict"] == "clear"


def test_the_finding_closes_with_the_next_healthy_window() -> None:
    beats = [SystemSample(START_NS + SECOND_NS * index) for index in range(12)]
    events = judged([*beats, window(1, conv=18.0), window(3, conv=2.0)])[1]
    assert [event["event"] for event in events if event["event"] != "continued"] == ["opened", "closed"]


def test_a_trace_that_is_too_large_is_undecided_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_times, "MAX_TRACE_BYTES", 10)
    state, _ = judged([window(1, conv=18.0)])
    assert state["verdict"] == "undecided"
    assert "w1: its trace is larger than" in state["why"]


def test_a_damaged_trace_is_undecided_with_the_reason(tmp_path: Path) -> None:
    path = RunWriter(tmp_path / "run").write_all([window(1, conv=18.0)]).end().path
    (Path(path) / "profiles/rank0-1/w1/trace.json.gz").write_bytes(b"torn")
    progress = Evaluator(path, [("it", OperatorTime())], started_ns=START_NS).advance(is_over=True)
    assert progress.rules["it"]["verdict"] == "undecided"
    assert "cannot be read" in progress.rules["it"]["why"]


def percentile95(values: Sequence[float]) -> float:
    ordered, place = sorted(values), (len(values) - 1) * 0.95
    low = int(place)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)


@pytest.mark.parametrize("seed", range(25))
def test_it_equals_a_loop_over_the_calls(seed: int) -> None:
    draw = random.Random(seed)
    scenario, results, past = [], "undecided", dict[str, list[float]]()
    for number in range(1, draw.randint(2, 6)):
        lengths = {
            name: [draw.choice([0.1, 1.0, 2.0, 3.0, 9.0]) for _ in range(draw.choice([5, CALLS]))] for name in "abc"
        }
        calls = [
            (name, value * 30.0 + place * 10.0, length)
            for place, (name, values) in enumerate(lengths.items())
            for value, length in enumerate(values)
        ]
        scenario.append(DetailedProfile(f"w{number}", number, START_NS + number * 2 * SECOND_NS, calls, step_ms=1000.0))
        has_fired = False
        for name, values in lengths.items():
            share, now = sum(values) / 1000.0, percentile95(values)
            before = past.setdefault(name, [])
            has_grown = len(values) >= 20 and bool(before) and now > 1.4 * median(before) and share >= 0.01
            has_fired = has_fired or share > 0.12 or has_grown
            before += [now] if len(values) >= 20 else []
        results = "fired" if has_fired or results == "fired" else "clear"
    state, _ = judged(scenario, share_threshold=0.12, growth_threshold=1.4)
    assert state["verdict"] == results


@settings(deadline=None, max_examples=20)
@given(
    lengths=st.lists(st.sampled_from([1.0, 2.0, 5.0, 18.0]), min_size=1, max_size=4),
    late_ms=st.lists(st.sampled_from([0, 100, 5000]), min_size=4, max_size=4),
    look=st.integers(1, 4),
    restart=st.integers(0, 12),
)
def test_verdicts_are_the_same_live_afterwards_and_after_a_restart(
    lengths: Sequence[float], late_ms: Sequence[int], look: int, restart: int
) -> None:
    """Windows become complete in time or late; the judge is restarted at some point."""
    windows = [window(number, conv=length) for number, length in enumerate(lengths, 1)]
    parts: list[tuple[int, Part]] = [
        (profile.complete_ns + late * 1_000_000, profile) for profile, late in zip(windows, late_ms, strict=False)
    ]
    parts += [(START_NS + SECOND_NS * index, SystemSample(START_NS + SECOND_NS * index)) for index in range(12)]
    parts += [(START_NS + SECOND_NS * index, Capture(index, {"loss": {"value": 1.0}})) for index in range(12)]
    scenario = [part for _, part in sorted(parts, key=lambda timed: timed[0])]
    with tempfile.TemporaryDirectory() as folder:
        writer = RunWriter(f"{folder}/live")
        judge = _RecordedJudge(writer.path)
        for count, _ in enumerate(writer.grow(scenario)):
            if count == restart:
                judge = _RecordedJudge(writer.path)
            if count % look == 0:
                judge.advance(is_over=False)
        writer.end()
        judge.advance(is_over=True)
        once = _RecordedJudge(RunWriter(f"{folder}/once").write_all(scenario).end().path)
        once.advance(is_over=True)
    assert judge.events == once.events
    assert judge.state == once.state


class _RecordedJudge:
    def __init__(self, path: str) -> None:
        self.events: list[bytes] = []
        self.state: dict[str, Any] = {}
        self._judging = Evaluator(path, [("it", OperatorTime())], started_ns=START_NS)

    def advance(self, *, is_over: bool) -> None:
        progress = self._judging.advance(is_over=is_over)
        self.events = [] if progress.restarted else self.events
        self.events += [encode(event) for _, event in progress.events]
        self.state = progress.rules.get("it", self.state)
