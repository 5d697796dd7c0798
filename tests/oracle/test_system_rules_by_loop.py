"""Rules on hardware metrics and step times against plain loops over the same scenario, moment by moment."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import pytest
from judged import judged_together
from system_scenarios import system_scenario

from leadline.rules.registry import find_rule
from leadline.testing.runs import SECOND_NS, START_NS, Capture, Part, SystemSample, TimelineEvent

SEEDS = range(30)
Series = dict[tuple[str, str, str, str], list[tuple[int, float]]]


@dataclass
class Step:
    worker: str
    step: int
    length: int
    phases: dict[str, int]

    def of(self, name: str) -> int:
        return self.phases.get(name, 0) if name != "other" else max(0, self.length - sum(self.phases.values()))


@dataclass
class RunState:
    """The data that was complete at a moment."""

    moment: int
    since: int
    """The moment of the evaluation before."""
    series: Series
    steps: dict[str, list[Step]]
    last_step: int | None

    def sensors(self, kind: str, metric: str) -> dict[tuple[str, str], list[tuple[int, float]]]:
        return {(n, d): samples for (n, k, d, m), samples in self.series.items() if (k, m) == (kind, metric)}


class Loop:
    """Evaluates a scenario moment by moment."""

    def __init__(self, scenario: Sequence[Part]) -> None:
        self.samples = [part for part in scenario if isinstance(part, SystemSample)]
        self.records = [(part.at_ns, part.step) for part in scenario if isinstance(part, Capture)]
        rows = [(part.worker, part.event) for part in scenario if isinstance(part, TimelineEvent)]
        self.ends = [row.start_ns + row.duration_ns for _, row in rows]
        cells: dict[tuple[str, int], dict[str, int]] = {}
        for worker, timed in rows:
            if timed.name != "step":
                phases = cells.setdefault((worker, timed.step), {})
                phases[timed.name] = phases.get(timed.name, 0) + timed.duration_ns
                if outer := timed.args.get("within"):
                    phases[outer] = phases.get(outer, 0) - timed.duration_ns
        self.steps = [
            (
                row.start_ns + row.duration_ns,
                Step(
                    worker,
                    row.step,
                    row.duration_ns,
                    {name: max(0, taken) for name, taken in cells.get((worker, row.step), {}).items()},
                ),
            )
            for worker, row in rows
            if row.name == "step"
        ]

    def states(self, every: int) -> list[RunState]:
        """Return the states every few seconds, and at the last record."""
        times = [sample.time_ns for sample in self.samples] + [at for at, _ in self.records]
        last = max([*times, *self.ends])
        moments = list(range(START_NS + every * SECOND_NS, last, every * SECOND_NS))
        return [self.state_at(at, before) for before, at in pairwise([START_NS - 1, *moments, last])]

    def state_at(self, moment: int, since: int) -> RunState:
        series: Series = {}
        for part in self.samples:
            if part.time_ns <= moment:
                key = (part.node, part.channel.kind, part.channel.device, part.channel.metric)
                series.setdefault(key, []).append((part.time_ns, part.value))
        steps: dict[str, list[Step]] = {}
        for end, step in self.steps:
            if end <= moment:
                steps.setdefault(step.worker, []).append(step)
        records = [record for record in self.records if record[0] <= moment]
        return RunState(moment, since, series, steps, max(records)[1] if records else None)


def percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def verdict_name(fired: bool, judged: bool) -> str:
    return "fired" if fired else "clear" if judged else "undecided"


def starved(state: RunState, host: str, host_above: float, gpu_below: float, threshold: float, patience: int) -> str:
    fired = judged = False
    for (node, _), samples in state.sensors("gpu", "utilization_percent").items():
        beside = dict(state.sensors("cpu", host).get((node, "total"), []))
        both = [(value, beside[at]) for at, value in samples if at in beside][patience:]
        if len(both) >= 10:
            judged = True
            bad = sum(value < gpu_below and other > host_above for value, other in both)
            fired |= 100 * bad / len(both) > threshold
    return verdict_name(fired, judged)


def after(samples: list[tuple[int, float]], patience: int, window: int) -> list[float] | None:
    """Return the last ``window`` values after the first ``patience``; None if there are too few."""
    values = [value for _, value in samples][patience:]
    return values[-window:] if len(values) >= window else None


def batch_size(state: RunState, patience: int, window: int) -> str:
    fired = judged = False
    for (node, device), samples in state.sensors("gpu", "utilization_percent").items():
        memory = state.sensors("gpu", "memory_used_percent").get((node, device), [])
        cpu = state.sensors("cpu", "utilization_percent").get((node, "total"), [])
        three = [after(samples_of, patience, window) for samples_of in (samples, memory, cpu)]
        if all(values is not None for values in three):
            judged = True
            fired |= all(percentile(values, 95) < 70 for values in three if values is not None)
    return verdict_name(fired, judged)


def low_gpu(state: RunState, patience: int, window: int) -> str:
    windows = [after(samples, patience, window) for samples in state.sensors("gpu", "utilization_percent").values()]
    full = [values for values in windows if values is not None]
    return verdict_name(any(percentile(values, 95) < 70 or percentile(values, 5) < 10 for values in full), bool(full))


def cpu_utilization(state: RunState, patience: int, window: int) -> str:
    windows = [after(samples, patience, window) for samples in state.sensors("cpu", "utilization_percent").values()]
    full = [percentile(values, 95) for values in windows if values is not None]
    return verdict_name(any(values > 95 or values < 5 for values in full), bool(full))


def hardware(state: RunState, patience: int, window: int) -> str:
    kinds = [
        ("cpu", "utilization_percent"),
        ("cpu", "iowait_percent"),
        ("memory", "used_percent"),
        ("gpu", "utilization_percent"),
        ("gpu", "memory_used_percent"),
    ]
    fired, judged = False, set()
    for kind, metric in kinds:
        for samples in state.sensors(kind, metric).values():
            values = after(samples, patience, window)
            if values is not None:
                judged.add((kind, metric))
                p95 = percentile(values, 95)
                fired |= p95 > 95 or ((kind, metric) == ("gpu", "utilization_percent") and p95 < 20)
    return verdict_name(fired, judged >= {("cpu", "utilization_percent"), ("memory", "used_percent")})


def memory_increase(state: RunState, patience: int, window: int) -> str:
    fired = judged = False
    for samples in state.sensors("gpu", "memory_used_percent").values():
        for end in range(patience + 2 * window, len(samples) + 1):
            if samples[end - 1][0] > state.since:
                values = [value for _, value in samples[end - 2 * window : end]]
                judged = True
                fired |= sum(values[window:]) / window - sum(values[:window]) / window > 10
    return verdict_name(fired, judged)


def balance(state: RunState, patience: int) -> str:
    found = []
    for samples in state.sensors("gpu", "utilization_percent").values():
        values = [value for _, value in samples][patience:]
        if len(values) >= 10:
            shares = [0.0] * 10
            for value in values:
                shares[min(9, int(value / 10))] += 1 / len(values)
            found.append(shares)
    apart = [sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2 for one in found for other in found]
    if len(state.sensors("gpu", "utilization_percent")) == 1:
        return "notapplicable"
    return verdict_name(any(difference > 0.5 + 1e-9 for difference in apart), len(found) > 1)


def late_start(state: RunState, seconds: int) -> str:
    is_late = state.moment > START_NS + seconds * SECOND_NS
    return verdict_name(state.last_step is None and is_late, state.last_step is not None)


def throttling(state: RunState) -> str:
    fired = judged = False
    devices: dict[tuple[str, str], dict[int, bool]] = {}
    for metric in ("thermal_throttle_percent", "power_throttle_percent"):
        for device, samples in state.sensors("gpu", metric).items():
            for at, value in samples:
                devices.setdefault(device, {})[at] = devices.setdefault(device, {}).get(at, False) or value > 0
    for moments in devices.values():
        last = [moments[at] for at in sorted(moments)][-600:]
        if len(last) >= 50:
            judged = True
            fired |= sum(last) / len(last) > 0.1
    return verdict_name(fired, judged)


def outliers(state: RunState, stddev: float, most: int) -> str:
    fired = judged = False
    for steps in state.steps.values():
        if len(steps) >= 3:
            judged = True
            lengths = [step.length for step in steps]
            mean, deviation = statistics.fmean(lengths), statistics.pstdev(lengths)
            fired |= sum(abs(length - mean) > stddev * deviation for length in lengths) > most
    return verdict_name(fired, judged)


def input_bound(state: RunState, window: int) -> str:
    fired = judged = False
    for steps in state.steps.values():
        last = steps[1:][-window:]
        if len(last) == window:
            judged = True
            kept = sorted(last, key=lambda step: step.of("data"))[:-1]
            whole = sum(step.length for step in kept)
            waited = sum(step.of("data") for step in kept)
            fired |= waited / whole > 0.3 and waited / (window - 1) >= 2e6
    return verdict_name(fired, judged)


def dataloader(state: RunState) -> str:
    full = [steps[-50:] for steps in state.steps.values() if len(steps) >= 50]
    shares = [sum(step.of("data") for step in steps) / sum(step.length for step in steps) for steps in full]
    return verdict_name(any(share > 0.3 for share in shares), bool(full))


def regression(state: RunState, window: int, factor: float) -> str:
    fired = judged = False
    for steps in state.steps.values():
        lengths = [step.length for step in steps]
        best = [statistics.median(lengths[at : at + window]) for at in range(0, len(lengths) - 2 * window + 1, window)]
        if best:
            judged = True
            fired |= statistics.median(lengths[-window:]) > factor * min(best)
    return verdict_name(fired, judged)


def straggler(state: RunState, patience: int, factor: float = 1.2) -> str:
    if len(state.steps) < 2:
        return "notapplicable" if state.steps else "undecided"
    compared, streaks, worst = 0, dict.fromkeys(state.steps, 0), 0
    for number in range(1000):
        cells = {worker: step for worker, steps in state.steps.items() for step in steps if step.step == number}
        if not all(steps[-1].step >= number for steps in state.steps.values()):
            break
        if len(cells) < 2:
            continue
        compared += 1
        shortest = min(cell.of("backward") for cell in cells.values())
        whole = {worker: cell.length - cell.of("collective") for worker, cell in cells.items()}
        synced = {worker: own - cells[worker].of("backward") + shortest for worker, own in whole.items()}
        for worker in cells:
            is_slow = False
            for own in (whole, synced):
                usual = sorted(own.values())[(len(own) - 1) // 2]
                is_slow |= own[worker] > factor * usual and own[worker] - usual >= 1e6
            streaks[worker] = streaks[worker] + 1 if is_slow else 0
        worst = max(streaks.values())
    return verdict_name(worst >= patience, compared >= patience)


MACHINE = {"patience": 3, "window": 10}
OF_GPUS = ("cpu_bottleneck", "io_bottleneck", "batch_size", "low_gpu_utilization", "load_balancing", "gpu_throttling")
CASES: dict[str, tuple[Callable[[], Any], int, Callable[[RunState], str]]] = {
    "cpu_bottleneck": (
        partial(find_rule("cpu_bottleneck"), patience=3, gpu_threshold=50.0, cpu_threshold=60.0),
        5,
        lambda state: starved(state, "utilization_percent", 60.0, 50.0, 50.0, 3),
    ),
    "io_bottleneck": (
        partial(find_rule("io_bottleneck"), patience=0),
        5,
        lambda state: starved(state, "iowait_percent", 50.0, 70.0, 50.0, 0),
    ),
    "batch_size": (partial(find_rule("batch_size"), **MACHINE), 5, lambda state: batch_size(state, 3, 10)),
    "low_gpu_utilization": (
        partial(find_rule("low_gpu_utilization"), **MACHINE),
        5,
        lambda state: low_gpu(state, 3, 10),
    ),
    "cpu_utilization": (
        partial(find_rule("cpu_utilization"), **MACHINE),
        5,
        lambda state: cpu_utilization(state, 3, 10),
    ),
    "hardware_utilization": (
        partial(find_rule("hardware_utilization"), **MACHINE),
        5,
        lambda state: hardware(state, 3, 10),
    ),
    "gpu_memory_increase": (
        partial(find_rule("gpu_memory_increase"), patience=3, window=5),
        5,
        lambda state: memory_increase(state, 3, 5),
    ),
    "load_balancing": (partial(find_rule("load_balancing"), patience=3), 5, lambda state: balance(state, 3)),
    "gpu_throttling": (find_rule("gpu_throttling"), 5, throttling),
    "max_initialization_time": (
        partial(find_rule("max_initialization_time"), threshold=0.05),
        1,
        lambda state: late_start(state, 3),
    ),
    "step_outlier": (
        partial(find_rule("step_outlier"), stddev=3.0, n_outliers=1),
        5,
        lambda state: outliers(state, 3.0, 1),
    ),
    "input_bound": (partial(find_rule("input_bound"), window=20), 1, lambda state: input_bound(state, 20)),
    "dataloader": (find_rule("dataloader"), 5, dataloader),
    "throughput_regression": (
        partial(find_rule("throughput_regression"), window=15),
        1,
        lambda state: regression(state, 15, 1.3),
    ),
    "straggler": (find_rule("straggler"), 1, lambda state: straggler(state, 20)),
}


@lru_cache
def expected(seed: int) -> dict[str, list[str]]:
    """Return the verdicts of the loops on a scenario, by rule and moment."""
    loop = Loop(system_scenario(seed))
    states = {every: loop.states(every) for every in (1, 5)}
    return {
        name: [judge(state) if has_device(name, state) else absent(state) for state in states[every]]
        for name, (_, every, judge) in CASES.items()
    }


def has_device(name: str, state: RunState) -> bool:
    """Return whether the devices that a rule is about were sampled so far; True for rules about anything else."""
    metric = dict.fromkeys(OF_GPUS, "utilization_percent") | {"gpu_memory_increase": "memory_used_percent"}
    return name not in metric or bool(state.sensors("gpu", metric[name]))


def absent(state: RunState) -> str:
    samples = [sample for each in state.sensors("cpu", "utilization_percent").values() for sample in each]
    return "notapplicable" if any(at > state.since for at, _ in samples) else "undecided"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rules_equal_plain_loops(seed: int) -> None:
    rules = {name: make() for name, (make, _, _) in CASES.items()}
    results = judged_together(rules, system_scenario(seed), batch_rows=25)
    assert {name: [verdict for _, verdict in words] for name, words in results.items()} == expected(seed)


def test_the_scenarios_have_every_verdict() -> None:
    for name in CASES:
        assert {verdict_name for seed in SEEDS for verdict_name in expected(seed)[name]} >= {
            "fired",
            "clear",
            "undecided",
        }, name
