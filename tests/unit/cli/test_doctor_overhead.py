"""The overhead that ``leadline doctor`` estimates: what a step pays for long, within the budget of a run."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from leadline.cli.doctor_report import MeasuredSteps, _overhead, _price
from leadline.training.doctor.probe import DoctorProbe

MS = 1_000_000


def times(steps: list[tuple[int, int]], base_ns: int = 0) -> tuple[int | None, int | None, int | None]:
    """Return what a probe finds in steps, each with its time and overhead in ms."""
    probe = DoctorProbe.__new__(DoctorProbe)
    ends, now, own = [], 0, 0
    for took, cost in steps:
        now, own = now + took * MS, own + cost * MS
        ends.append((now, own))
    probe._step_ends, probe._base_ns = ends, base_ns
    return probe._times()


def test_what_the_first_captures_build_is_no_cost_of_a_step() -> None:
    steps = [(2000, 900), (12, 1), (460, 450), (11, 1), (14, 3), (11, 2), (13, 4), (10, 1)]
    assert times(steps) == (9.5 * MS, 3 * MS, 1 * MS)


def test_a_step_that_was_nearly_all_overhead_does_not_tell_how_long_a_step_takes() -> None:
    assert times([(2000, 900), (12, 2), (450, 449)]) == (10 * MS, 449 * MS, 2 * MS)
    assert times([(2000, 900), (100, 90)])[:2] == (100 * MS, None)
    assert times([(2000, 900)]) == (None, None, None)


@pytest.mark.parametrize(
    ("base_ms", "capture_ms", "budget", "wanted", "kept"),
    [
        (0.1, 1.1, 0.02, 0.002, 0.002),
        (0.1, 100.1, 0.02, 0.101, 0.02),
        (0.1, 100.1, None, 0.101, 0.101),
        (5.0, 105.0, 0.02, 0.15, 0.055),
    ],
)
def test_the_budget_delays_captures_but_not_what_each_step_costs(
    base_ms: float, capture_ms: float, budget: float | None, wanted: float, kept: float
) -> None:
    part = {"share": 0.1, "own_ns": capture_ms * MS, "bytes": 10}
    price = {"label": "preset", "parts": [part], "forward_share": 0.0, "accuracy_share": 0.0}
    measured = MeasuredSteps(100 * MS, round(base_ms * MS), captures_share=0.25)
    found = _price(price, measured, budget, has_activations=False)
    assert found["step_share_without_budget"] == pytest.approx(wanted)
    assert found["step_share"] == pytest.approx(kept)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"steps_measured": 2}, ["rough: only 2 steps measured"]),
        ({"step_seconds": 43e-6}, ["rough: steps are so short"]),
        ({"is_overloaded": True}, ["rough: the machine is overloaded"]),
    ],
)
def test_an_estimate_says_where_it_is_rough(changes: dict[str, Any], said: list[str]) -> None:
    price = {
        "label": "preset",
        "step_share": 0.02,
        "step_share_without_budget": 0.1,
        "capture_seconds": 0.1,
        "capture_every": 10,
        "activations_seconds": 0.0,
        "activations_every": None,
        "bytes_per_1000_steps": 1,
    }
    training = {
        "prices": [price],
        "models": [],
        "steps_measured": 20,
        "step_seconds": 0.01,
        "once_seconds": 0.45,
        "is_overloaded": False,
        **changes,
    }
    console = Console(file=io.StringIO(), width=200)
    console.print(_overhead(training))
    lines = [line.strip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert any(line.startswith("once, at the start: 450 ms") for line in lines)
    assert [line for line in lines if line.startswith("rough")] == [
        line for line in lines if any(map(line.startswith, said))
    ]
    assert len([line for line in lines if line.startswith("rough")]) == len(said)
