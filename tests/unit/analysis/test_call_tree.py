"""The call tree: totals equal the samples, and no call exceeds its caller."""

from __future__ import annotations

import random

from leadline.analysis.call_tree import CallNode, call_tree
from leadline.profiles.python_profiles import Flame, _flames


def sampled(stacks: list[tuple[list[str], float]]) -> list[Flame]:
    """Return pyinstrument samples: the stack, callers first, and the duration."""
    return _flames([([f"{name}\0/x/{name}.py\x001" for name in stack], seconds) for stack, seconds in stacks], 0)


def by_path(calls: list[CallNode]) -> dict[tuple[str, ...], CallNode]:
    ways: dict[str, tuple[str, ...]] = {}
    for each in calls:
        ways[each.id] = (*ways.get(each.parent, ()), each.function)
    return {ways[each.id]: each for each in calls}


def test_times_are_those_of_the_samples() -> None:
    flames = sampled([(["main", "load"], 0.25), (["main", "step"], 0.5), (["main", "step", "loss"], 0.125)])
    found = by_path(call_tree([({}, flames)]))
    assert {way: each.total_ns for way, each in found.items()} == {
        ("all",): 875_000_000,
        ("all", "main"): 875_000_000,
        ("all", "main", "load"): 250_000_000,
        ("all", "main", "step"): 625_000_000,
        ("all", "main", "step", "loss"): 125_000_000,
    }
    assert found["all", "main", "step"].own_ns == 500_000_000
    assert found["all", "main", "step", "loss"].file == "/x/loss.py"


def test_slices_are_merged_and_each_call_path_has_one_node() -> None:
    one, other = sampled([(["main", "step"], 0.25)]), sampled([(["main"], 0.25), (["main", "step"], 0.5)])
    found = by_path(call_tree([({}, one), ({}, other)]))
    assert found["all", "main", "step"].total_ns == 750_000_000
    assert len(found) == 3


def test_functions_of_leadline_are_one_call_without_what_they_wrap() -> None:
    own = "/lib/leadline/training/guard"
    records = [
        (["main", "step", f"{own}/run", f"{own}/call", "load"], 0.5),
        (["main", "step", f"{own}/run", f"{own}/note"], 0.125),
        (["main", "step"], 0.25),
    ]
    found = by_path(call_tree([({}, sampled(records))]))
    assert {way: each.total_ns for way, each in found.items() if len(way) > 2} == {
        ("all", "main", "step"): 875_000_000,
        ("all", "main", "step", "load"): 500_000_000,
        ("all", "main", "step", "Leadline overhead"): 125_000_000,
    }


def test_equals_a_plain_count_of_random_samples() -> None:
    chance = random.Random(11)
    for _ in range(30):
        stacks = [(["main", *chance.choices("abc", k=chance.randrange(6))], 1 / 1024) for _ in range(60)]
        found = by_path(call_tree([({}, sampled(stacks))]))
        counted: dict[tuple[str, ...], float] = {}
        for stack, seconds in stacks:
            for depth in range(len(stack) + 1):
                way = ("all", *stack[:depth])
                counted[way] = counted.get(way, 0.0) + seconds * 1e9
        assert set(found) == set(counted)
        for way, each in found.items():
            assert abs(each.total_ns - counted[way]) <= 60  # each moment is rounded to a nanosecond


def test_the_longest_calls_are_kept_and_none_exceeds_its_caller() -> None:
    chance = random.Random(5)
    stacks = [([f"f{chance.randrange(9)}" for _ in range(5)], chance.random()) for _ in range(3000)]
    calls = call_tree([({}, sampled(stacks))], limit=100)
    assert 20 < len(calls) <= 100
    total = {each.id: each.total_ns for each in calls}
    for each in calls:
        below = sum(one.total_ns for one in calls if one.parent == each.id)
        assert below + each.own_ns == each.total_ns
        assert not each.parent or total[each.parent] >= each.total_ns


def test_without_samples_there_is_no_tree() -> None:
    assert call_tree([]) == []
    assert call_tree([({}, [])]) == []
