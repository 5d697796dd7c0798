"""The first rules against plain loops over the same scenario, without windows, views or numpy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from generated_runs import scenarios
from hypothesis import given, settings
from judged import Judged, judged_by

from leadline.records.verdict import Clear, Fired, Undecided
from leadline.rules.registry import find_rule
from leadline.testing.runs import START_NS, Capture, Part


def captures(scenario: Sequence[Part]) -> Iterator[tuple[int, list[Capture]]]:
    by_step: dict[int, list[Capture]] = {}
    for part in scenario:
        if isinstance(part, Capture):
            by_step.setdefault(part.step, []).append(part)
    yield from sorted(by_step.items())


def verdict_name(fired: bool, judged: bool = True) -> str:
    return "fired" if fired else "clear" if judged else "undecided"


def exploding(scenario: Sequence[Part], only_nan: bool) -> Judged:
    results = []
    for step, parts in captures(scenario):
        bad = False
        for part in parts:
            for values in part.values.values():
                number = values.get("value", 0.0)
                bad |= math.isnan(number) or (math.isinf(number) and not only_nan)
                bad |= values.get("nan_count" if only_nan else "nonfinite_count", 0.0) > 0
        results.append((step, verdict_name(bad)))
    return results


def vanishing(scenario: Sequence[Part], threshold: float) -> Judged:
    results = []
    for step, parts in captures(scenario):
        means = [v["abs_mean"] for part in parts for v in part.values.values() if "abs_mean" in v]
        finite = [mean for mean in means if math.isfinite(mean)]
        if means:
            vanished = any(0 < value < min(threshold, 1e-3 * max(finite)) for value in finite)
            results.append((step, verdict_name(vanished, bool(finite))))
    return results


def update_ratios(scenario: Sequence[Part], large: float, small: float, epsilon: float) -> Judged:
    results = []
    for step, parts in captures(scenario):
        found = [v for part in parts for v in part.values.values() if "update_ratio" in v]
        ratios = []
        for statistics in found:
            ratio, norm = statistics["update_ratio"], statistics["l2"]
            if math.isfinite(norm) and norm != 0:
                ratio *= norm / (norm + epsilon)
            elif norm == 0:
                continue
            if not math.isnan(ratio):
                ratios.append(ratio)
        if found:
            results.append((step, verdict_name(any(value > large or value < small for value in ratios), bool(ratios))))
    return results


def losses(scenario: Sequence[Part], num_steps: int, diff: float, increase: float) -> Judged:
    results: Judged = []
    modes: set[str] = set()
    past: dict[tuple[str, str], list[tuple[int, float]]] = {}
    last: dict[tuple[str, str], int] = {}
    for step, parts in captures(scenario):
        mode = parts[0].mode
        modes.add(mode)
        compared, fired = False, False
        for part in parts:
            if "loss" not in part.values:
                continue
            key, now, at = (part.worker, mode), part.values["loss"]["value"], part.mode_step
            known = past.setdefault(key, [])
            last.setdefault(key, at - 1)
            if at - last[key] >= num_steps:
                last[key] = at
                behind = [value for known_step, value in known if known_step <= at - num_steps]
                if behind and math.isfinite(behind[-1]) and math.isfinite(now):
                    compared = True
                    before = behind[-1]
                    if before == 0:
                        change = 0.0 if now == 0 else math.copysign(math.inf, now)
                    else:
                        change = (now - before) / abs(before) * 100
                    fired |= change > increase or -change < diff
            known.append((at, now))
        is_preferred = mode == ("eval" if "eval" in modes else "train")
        results.append((step, verdict_name(fired, compared) if is_preferred else "undecided"))
    return results


@settings(deadline=None, max_examples=25)
@given(scenario=scenarios())
def test_rules_equal_a_plain_loop(scenario: Sequence[Part]) -> None:
    for only_nan in (False, True):
        assert judged_by(find_rule("exploding_tensor")(only_nan=only_nan), scenario) == exploding(scenario, only_nan)
    assert judged_by(find_rule("vanishing_gradient")(), scenario) == vanishing(scenario, 1e-7)
    assert judged_by(find_rule("weight_update_ratio")(), scenario) == update_ratios(scenario, 10.0, 1e-8, 1e-9)
    rule = find_rule("loss_not_decreasing")(num_steps=2, diff_percent=1.0)
    assert judged_by(rule, scenario) == losses(scenario, 2, 1.0, 5.0)


@settings(deadline=None, max_examples=25)
@given(scenario=scenarios())
def test_stalls_equal_a_plain_loop(scenario: Sequence[Part]) -> None:
    times = [part.time_ns for part in scenario if isinstance(part, Capture)]
    ends = [part.time_ns for part in scenario if not hasattr(part, "tensors")]
    end = max(ends, default=START_NS)
    expected = []
    for moment in [*range(START_NS + 10**9, end, 10**9), *([end] if end > START_NS else [])]:
        before = [time for time in times if time <= moment]
        expected.append(verdict_name(bool(before) and moment - max(before) > 1.5e9, bool(before)))
    results = [verdict for _, verdict in judged_by(find_rule("stalled_training")(threshold=1.5), scenario)]
    assert results == expected


def test_the_oracle_uses_the_verdict_names() -> None:
    assert {verdict.__name__.lower() for verdict in (Clear, Fired, Undecided)} == {"clear", "fired", "undecided"}
