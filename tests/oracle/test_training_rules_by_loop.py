"""Training rules against plain loops over the same scenario, without windows, views or numpy."""

from __future__ import annotations

import math
import re
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from generated_runs import scenarios
from hypothesis import given, settings
from judged import Judged, judged_by

from leadline.judge.evaluator import Evaluator
from leadline.rules.registry import find_rule
from leadline.rules.rule import Rule
from leadline.testing.runs import START_NS, Capture, Part, RawTensors, RunWriter


class Step:
    """The data that a scenario captured at one step."""

    def __init__(self, step: int, parts: Sequence[Part]) -> None:
        self.step = step
        self.captures = [part for part in parts if isinstance(part, Capture)]
        self.mode, self.mode_step = self.captures[0].mode, self.captures[0].mode_step
        self.raws = [part for part in parts if isinstance(part, RawTensors)]

    def numbers(self, statistic: str, pattern: str) -> list[tuple[str, str, float]]:
        """Return worker, tensor and value of each scalar of a statistic."""
        return [
            (part.worker, name, values[statistic])
            for part in self.captures
            for name, values in part.values.items()
            if statistic in values and re.search(pattern, name)
        ]

    def vectors(self, statistic: str) -> list[tuple[str, str, list[float]]]:
        """Return worker, tensor and elements, row by row, of each array of a statistic."""
        found = []
        for part in self.raws:
            for name, (_, shape, data) in part.tensors.items():
                if name.endswith("@" + statistic):
                    values = list(struct.unpack(f"<{math.prod(shape)}d", data))
                    found.append((part.worker, name.partition("@")[0], values))
        return found

    def shape(self, tensor: str, worker: str) -> tuple[int, ...]:
        (info,) = [part.infos[tensor] for part in self.captures if part.worker == worker and tensor in part.infos]
        return info.shape


def steps(scenario: Sequence[Part]) -> Iterator[Step]:
    by_step: dict[int, list[Part]] = {}
    for part in scenario:
        if isinstance(part, (Capture, RawTensors)):
            by_step.setdefault(part.step, []).append(part)
    for step, parts in sorted(by_step.items()):
        yield Step(step, parts)


def verdict_name(fired: bool, judged: bool = True) -> str:
    return "fired" if fired else "clear" if judged else "undecided"


def all_zero(scenario: Sequence[Part], threshold: float) -> Judged:
    results = []
    for step in steps(scenario):
        found = step.numbers("zero_ratio", "gradient/")
        shares = [value * 100 if step.mode_step >= 3 or math.isnan(value) else 0.0 for _, _, value in found]
        shares += [100.0 if value == 0 else 0.0 for _, _, value in step.numbers("value", "^loss$")]
        known = [share for share in shares if not math.isnan(share)]
        results.append((step.step, verdict_name(any(value >= threshold for value in known), bool(known))))
    return results


def variances(scenario: Sequence[Part], most: float, least: float) -> Judged:
    results = []
    for step in steps(scenario):
        found = [value for _, _, value in step.numbers("variance", "")]
        finite = [value for value in found if math.isfinite(value)]
        if found:
            results.append(
                (step.step, verdict_name(any(value > most or value < least for value in finite), bool(finite)))
            )
    return results


def unchanged(scenario: Sequence[Part], num_steps: int) -> Judged:
    results: Judged = []
    past: dict[tuple, list[float]] = {}
    for step in steps(scenario):
        fired, judged = False, False
        for worker, name, value in step.numbers("close_1e-05_1e-08", "gradient/"):
            known = past.setdefault((worker, name, step.mode), [])
            known.append(value)
            last = known[-(num_steps - 1) :]
            if len(last) == num_steps - 1 and not any(math.isnan(each) for each in last):
                judged = True
                fired |= min(last) >= 1.0
        for worker, name, value in step.numbers("value", "^loss$"):
            known = past.setdefault((worker, name, step.mode), [])
            known.append(value)
            if len(known) >= num_steps:
                judged = True
                last = known[-num_steps:]
                fired |= all(
                    b == a if math.isinf(a) or math.isinf(b) else abs(b - a) <= 1e-8 + 1e-5 * abs(a)
                    for a, b in pairwise(last)
                )
        results.append((step.step, verdict_name(fired, judged)))
    return results


def overtraining(scenario: Sequence[Part], train: int, validation: int, delta: float) -> Judged:
    results = []
    past: dict[tuple[str, str], list[float]] = {}
    for step in steps(scenario):
        fired, judged = False, False
        for worker, _, value in step.numbers("value", "^loss$"):
            if not math.isfinite(value):
                continue
            judged = True
            known = past.setdefault((worker, step.mode), [])
            known.append(value)
            best, since = math.inf, 0
            for each in known:
                best, since = (each, 0) if each < best - delta else (best, since + 1)
            fired |= since >= (train if step.mode == "train" else validation)
        results.append((step.step, verdict_name(fired, judged)))
    return results


def overfit(scenario: Sequence[Part], patience: int, threshold: float) -> Judged:
    results = []
    history: dict[str, list[tuple[str, float]]] = {}
    streaks: dict[str, int] = {}
    for step in steps(scenario):
        fired, judged = False, False
        for worker, _, value in step.numbers("value", "^loss$"):
            if not math.isfinite(value):
                continue
            known = history.setdefault(worker, [])
            known.append((step.mode, value))
            if step.mode != "eval":
                continue
            ratio = gap(known)
            above = ratio is not None and ratio > threshold
            streaks[worker] = streaks.get(worker, 0) + 1 if above else 0
            judged |= ratio is not None
            fired |= streaks[worker] >= patience
        results.append((step.step, verdict_name(fired, judged)))
    return results


def gap(history: list[tuple[str, float]]) -> float | None:
    """Return the relative difference of validation and training, from the values of one loss."""
    phases: list[tuple[str, list[float]]] = []
    for mode, value in history:
        if not phases or phases[-1][0] != mode:
            phases.append((mode, []))
        phases[-1][1].append(value)
    training = [values for mode, values in phases if mode == "train"]
    evaluations = [values for mode, values in phases if mode == "eval"]
    if not training or not evaluations:
        return None
    now = list(evaluations[-1])
    if len(evaluations) > 1:
        before = evaluations[-2]
        now += [sum(before) / len(before)] * (len(before) - len(now))
    train, validation = sum(training[-1]) / len(training[-1]), sum(now) / len(now)
    if train == 0:
        return math.copysign(math.inf, validation) if validation else 0.0
    return (validation - train) / abs(train)


def clipping(scenario: Sequence[Part], window: int, share: float, norm: float) -> Judged:
    results = []
    past: dict[str, list[float]] = {}
    for step in steps(scenario):
        found = {(worker, name): value for worker, name, value in step.numbers("value", "^gradient_")}
        if not found:
            continue
        fired, judged, suspected = False, False, False
        for (worker, name), value in found.items():
            if name == "gradient_clipped":
                judged = True
                past.setdefault(worker, []).append(value)
                fired |= sum(past[worker][-window:]) > share * window
                suspected |= len(past[worker]) < window and sum(past[worker]) > share * len(past[worker])
            if name == "gradient_norm":
                judged |= not math.isnan(value)
                fired |= value > norm and (worker, "gradient_clipped") not in found
        results.append((step.step, verdict_name(fired, judged and not suspected)))
    return results


def initialization(scenario: Sequence[Part], patience: int, last: int) -> Judged:
    results = []
    differ: dict[str, int] = {}
    starts: dict[str, float] = {}
    high: dict[str, int] = {}
    for step in steps(scenario):
        if step.mode != "train" or step.mode_step >= last:
            continue
        fired, judged = False, False
        inputs: dict[str, list[float]] = {}
        for worker, _, value in step.numbers("variance", "relu_input"):
            if math.isfinite(value):
                inputs.setdefault(worker, []).append(value)
        judged |= sum(map(len, inputs.values())) > 1
        for worker, values in inputs.items():
            is_wide = len(values) > 1 and (max(values) / min(values) > 10 if min(values) else max(values) > 0)
            differ[worker] = differ.get(worker, 0) + 1 if is_wide else 0
            fired |= differ[worker] >= 3
        losses = [(worker, value) for worker, _, value in step.numbers("value", "^loss$") if math.isfinite(value)]
        for worker, value in losses:
            judged = True
            start = starts.setdefault(worker, value)
            high[worker] = high.get(worker, 0) + 1 if value > 2 * start > 0 else 0
        fired |= bool(losses) and all(count >= patience for count in high.values())
        results.append((step.step, verdict_name(fired, judged)))
    return results


def unit_shares(scenario: Sequence[Part], statistic: str, inactivity: float, most: float) -> Judged:
    results = []
    for step in steps(scenario):
        found = step.vectors(statistic)
        layers = [values for _, _, values in found if not all(math.isnan(value) for value in values)]
        bad = [sum(value * 100 < inactivity for value in values) / len(values) * 100 > most for values in layers]
        if found:
            results.append((step.step, verdict_name(any(bad), bool(layers))))
    return results


def imbalance(scenario: Sequence[Part], samples: int, ratio: float, mistaken: float) -> Judged:
    results = []
    counted: dict[tuple[str, str], list[float]] = {}
    confused: dict[tuple[str, str], list[float]] = {}
    for step in steps(scenario):
        found = {worker: values for worker, _, values in step.vectors("class_counts")}
        if not found:
            continue
        for worker, _, values in step.vectors("confusion") if step.step >= 100 else ():
            before = confused.get((worker, step.mode), [0.0] * 4)
            before = [0.0] * 4 if sum(before) >= samples else before
            confused[worker, step.mode] = [one + other for one, other in zip(before, values, strict=True)]
        judged, fired, suspected = False, False, False
        for worker, values in found.items():
            counts = counted.get((worker, step.mode), [0.0] * 3)
            counts = [one + other for one, other in zip(counts, [*values, 0.0][:3], strict=True)]
            counted[worker, step.mode] = counts
            if sum(counts) < samples:
                continue
            judged = True
            most, least = max(counts), min(count for count in counts if count)
            fired |= math.log(most / least) - 3 * math.sqrt(1 / most + 1 / least) > math.log(ratio)
            suspected |= most > ratio * least
            matrix = confused.get((worker, step.mode), [0.0] * 4)
            for right, wrong in ((matrix[0], matrix[1]), (matrix[3], matrix[2])):
                fired |= right + wrong > 0 and wilson(wrong, right + wrong) > mistaken
        results.append((step.step, verdict_name(fired, judged and not suspected)))
    return results


def wilson(bad: float, count: float) -> float:
    """Return the smaller share of which the observed one is three standard deviations away, found by bisection."""
    low, high = 0.0, bad / count
    for _ in range(100):
        middle = (low + high) / 2
        is_far = bad / count - middle > 3 * math.sqrt(middle * (1 - middle) / count)
        low, high = (middle, high) if is_far else (low, middle)
    return low


def confusions(scenario: Sequence[Part], diagonal: float, off: float) -> Judged:
    results = []
    counted: dict[tuple[str, str], list[float]] = {}
    modes: set[str] = set()
    for step in steps(scenario):
        found = {worker: values for worker, _, values in step.vectors("confusion")}
        if not found:
            continue
        modes.add(step.mode)
        judged, fired = False, False
        for worker, values in found.items():
            matrix = counted.get((worker, step.mode), [0.0] * 4)
            matrix = [0.0] * 4 if sum(matrix) >= 20 else matrix
            matrix = counted[worker, step.mode] = [one + other for one, other in zip(matrix, values, strict=True)]
            if sum(matrix) < 20:
                continue
            judged = True
            a, b, c, d = matrix
            fired |= any(
                right + wrong >= 10 and right / (right + wrong) < diagonal for right, wrong in ((a, b), (d, c))
            )
            fired |= any(right + wrong >= 10 and wrong / (right + wrong) > off for right, wrong in ((a, c), (d, b)))
        is_judged = step.mode == ("eval" if "eval" in modes else "train")
        results.append((step.step, verdict_name(fired, judged) if is_judged else "undecided"))
    return results


def images(scenario: Sequence[Part], samples: int, most: float) -> Judged:
    results = []
    counted: dict[str, tuple[int, list[float]]] = {}
    for step in steps(scenario):
        found = step.vectors("unit_mean")
        judged, fired = False, False
        for worker, tensor, means in found:
            count = step.shape(tensor, worker)[0]
            if not count:
                continue
            before, totals = counted.get(worker, (0, [0.0, 0.0]))
            before, totals = (0, [0.0, 0.0]) if before >= samples else (before, totals)
            counted[worker] = before + count, [a + b * count for a, b in zip(totals, means, strict=True)]
            if counted[worker][0] >= samples:
                total = [each / counted[worker][0] for each in counted[worker][1]]
                known = [value for value in total if math.isfinite(value)]
                judged |= bool(known)
                fired |= any(abs(value) > most for value in known)
        if found:
            results.append((step.step, verdict_name(fired, judged)))
    return results


def tokens(scenario: Sequence[Part], percent: float) -> Judged:
    results = []
    for step in steps(scenario):
        found = [value for _, _, value in step.numbers("equals_0", "embedding")]
        known = [value for value in found if not math.isnan(value)]
        if found:
            results.append((step.step, verdict_name(any(value * 100 > percent for value in known), bool(known))))
    return results


Loop = Callable[[Sequence[Part]], Judged]
CASES: dict[str, tuple[dict[str, Any], Loop]] = {
    "all_zero": (
        {"collection_names": ("gradients", "losses"), "threshold": 51},
        lambda scenario: all_zero(scenario, 51),
    ),
    "tensor_variance": (
        {"tensor_regex": (".",), "max_threshold": 1.0, "min_threshold": 1e-12},
        lambda scenario: variances(scenario, 1.0, 1e-12),
    ),
    "unchanged_tensor": (
        {"collection_names": ("gradients", "losses"), "num_steps": 3},
        lambda scenario: unchanged(scenario, 3),
    ),
    "overtraining": (
        {"patience_train": 2, "patience_validation": 1, "delta": 0.1},
        lambda scenario: overtraining(scenario, 2, 1, 0.1),
    ),
    "overfit": ({"patience": 2}, lambda scenario: overfit(scenario, 2, 0.1)),
    "gradient_clipping": ({"window": 3}, lambda scenario: clipping(scenario, 3, 0.5, 1000.0)),
    "poor_weight_initialization": ({"patience": 3, "steps": 6}, lambda scenario: initialization(scenario, 3, 6)),
    "dead_relu": ({}, lambda scenario: unit_shares(scenario, "unit_activity", 1.0, 50.0)),
    "saturated_activation": ({}, lambda scenario: unit_shares(scenario, "unit_within_-9.4999_9.4999", 1.0, 50.0)),
    "class_imbalance": ({"samples": 40}, lambda scenario: imbalance(scenario, 40, 10.0, 0.7)),
    "confusion": ({"start_step": 0}, lambda scenario: confusions(scenario, 0.9, 0.1)),
    "check_input_images": ({"threshold_samples": 6}, lambda scenario: images(scenario, 6, 0.2)),
    "nlp_sequence_ratio": ({}, lambda scenario: tokens(scenario, 50.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rule_equals_a_plain_loop(name: str) -> None:
    parameters, loop = CASES[name]

    @settings(deadline=None, max_examples=20)
    @given(scenario=scenarios(is_rich=True))
    def check(scenario: Sequence[Part]) -> None:
        assert judged_by(find_rule(name)(**parameters), scenario) == loop(scenario)

    check()


@settings(deadline=None, max_examples=25)
@given(scenario=scenarios(), other=scenarios())
def test_similar_across_runs_equals_a_plain_loop(scenario: Sequence[Part], other: Sequence[Part]) -> None:
    there = {
        (*place(part), part.worker, name): values["value"]
        for part in other
        if isinstance(part, Capture)
        for name, values in part.values.items()
        if "value" in values
    }
    expected = []
    for step in steps(scenario):
        pairs = [
            (here, there[*place(step), worker, name])
            for worker, name, here in step.numbers("value", "")
            if (*place(step), worker, name) in there
        ]
        norms = compared_norms(step, other)
        differs = [not alike(here, that) for here, that in (*pairs, *norms)]
        expected.append((step.step, verdict_name(any(differs), bool(differs))))
    with tempfile.TemporaryDirectory() as folder:
        RunWriter(f"{folder}/other").write_all(other).end()
        path = RunWriter(f"{folder}/run").write_all(scenario).end().path
        rule = find_rule("similar_across_runs")(other_trials=("other",))
        results: Judged = []

        class Spy(Rule, frozen=True):
            def needs(self):
                return rule.needs()

            def evaluate(self, window):
                verdict = rule.evaluate(window)
                results.append((window.global_step, type(verdict).__name__.lower()))
                return verdict

        Evaluator(path, [("spy", Spy())], started_ns=START_NS).advance(is_over=True)
    assert results == expected


def compared_norms(step: Step, other: Sequence[Part]) -> list[tuple[float, float]]:
    there = {
        (part.worker, name): values["l2"]
        for part in other
        if isinstance(part, Capture) and place(part) == place(step)
        for name, values in part.values.items()
        if "l2" in values
    }
    return [(value, there[worker, name]) for worker, name, value in step.numbers("l2", "") if (worker, name) in there]


def place(there: Step | Capture) -> tuple[int, str, int | None]:
    """Return the position at which two runs are compared: the step, and for eval steps the step of the mode."""
    return there.step, there.mode, None if there.mode == "train" else there.mode_step


def alike(here: float, there: float) -> bool:
    if math.isnan(here) or math.isnan(there):
        return math.isnan(here) and math.isnan(there)
    return here == there or (math.isfinite(there) and abs(here - there) <= 1e-8 + 1e-5 * abs(there))
