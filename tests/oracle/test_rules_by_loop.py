"""Every rule against a plain loop over the same story, written without windows, views or numpy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from hypothesis import given, settings
from judged import Judged, judged_by

from leadline.records.verdict import Clear, Fired, Undecided
from leadline.rules.registry import find_rule
from leadline.testing.runs import START_NS, Capture, Part
from leadline.testing.scenarios import scenarios


def captures(story: Sequence[Part]) -> Iterator[tuple[int, list[Capture]]]:
    by_step: dict[int, list[Capture]] = {}
    for part in story:
        if isinstance(part, Capture):
            by_step.setdefault(part.step, []).append(part)
    yield from sorted(by_step.items())


def word(fired: bool, judged: bool = True) -> str:
    return "fired" if fired else "clear" if judged else "undecided"


def exploding(story: Sequence[Part], only_nan: bool) -> Judged:
    said = []
    for step, parts in captures(story):
        bad = False
        for part in parts:
            for values in part.values.values():
                number = values.get("value", 0.0)
                bad |= math.isnan(number) or (math.isinf(number) and not only_nan)
                bad |= values.get("nan_count" if only_nan else "nonfinite_count", 0.0) > 0
        said.append((step, word(bad)))
    return said


def vanishing(story: Sequence[Part], threshold: float) -> Judged:
    said = []
    for step, parts in captures(story):
        means = [v["abs_mean"] for part in parts for v in part.values.values() if "abs_mean" in v]
        finite = [each for each in means if math.isfinite(each)]
        if means:
            said.append((step, word(any(each < threshold for each in finite), bool(finite))))
    return said


def update_ratios(story: Sequence[Part], large: float, small: float, epsilon: float) -> Judged:
    said = []
    for step, parts in captures(story):
        found = [v for part in parts for v in part.values.values() if "update_ratio" in v]
        ratios = []
        for each in found:
            ratio, norm = each["update_ratio"], each["l2"]
            if math.isfinite(norm) and norm != 0:
                ratio *= norm / (norm + epsilon)
            elif norm == 0:
                continue
            if not math.isnan(ratio):
                ratios.append(ratio)
        if found:
            said.append((step, word(any(each > large or each < small for each in ratios), bool(ratios))))
    return said


def losses(story: Sequence[Part], num_steps: int, diff: float, increase: float) -> Judged:
    said: Judged = []
    modes: set[str] = set()
    past: dict[tuple[str, str], list[tuple[int, float]]] = {}
    last: dict[tuple[str, str], int] = {}
    for step, parts in captures(story):
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
                behind = [value for each, value in known if each <= at - num_steps]
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
        said.append((step, word(fired, compared) if is_preferred else "undecided"))
    return said


@settings(deadline=None, max_examples=25)
@given(story=scenarios())
def test_rules_equal_a_plain_loop(story: Sequence[Part]) -> None:
    for only_nan in (False, True):
        assert judged_by(find_rule("exploding_tensor")(only_nan=only_nan), story) == exploding(story, only_nan)
    assert judged_by(find_rule("vanishing_gradient")(), story) == vanishing(story, 1e-7)
    assert judged_by(find_rule("weight_update_ratio")(), story) == update_ratios(story, 10.0, 1e-8, 1e-9)
    rule = find_rule("loss_not_decreasing")(num_steps=2, diff_percent=1.0)
    assert judged_by(rule, story) == losses(story, 2, 1.0, 5.0)


@settings(deadline=None, max_examples=25)
@given(story=scenarios())
def test_stalls_equal_a_plain_loop(story: Sequence[Part]) -> None:
    times = [part.time_ns for part in story if isinstance(part, Capture)]
    ends = [part.time_ns for part in story if not hasattr(part, "tensors")]
    expected = []
    for second in range(1, (max(ends, default=START_NS) - START_NS) // 10**9 + 1):
        moment = START_NS + second * 10**9
        before = [each for each in times if each <= moment]
        expected.append(word(bool(before) and moment - max(before) > 1.5e9, bool(before)))
    said = [each for _, each in judged_by(find_rule("stalled_training")(threshold=1.5), story)]
    assert said == expected


def test_the_words_are_those_of_the_verdicts() -> None:
    assert {each.__name__.lower() for each in (Clear, Fired, Undecided)} == {"clear", "fired", "undecided"}
