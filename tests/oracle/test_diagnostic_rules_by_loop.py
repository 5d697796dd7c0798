"""Diagnostic rules against plain loops over the same scenario, without windows, views or numpy."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from rule_scenarios import INFOS, captured, diagnostic_scenarios

from leadline.judge.evaluator import Evaluator
from leadline.rules.losses.metric_not_improving import MetricNotImproving
from leadline.rules.registry import find_rule
from leadline.rules.robust import mann_kendall
from leadline.rules.rule import Rule
from leadline.testing.runs import START_NS, ArrayStatistics, Capture, Part, RunWriter

Judged = list[tuple[int, str]]
"""Step and verdict (``clear``, ``fired``, ``undecided`` or ``notapplicable``)."""


def judged_by(rules: dict[str, Rule], scenario: Sequence[Part]) -> dict[str, Judged]:
    """Return the verdict of each rule at each step, through store, reader and window."""
    results: dict[str, Judged] = {name: [] for name in rules}

    def spy(name: str, rule: Rule) -> Rule:
        class Spy(Rule, frozen=True):
            def needs(self):
                return rule.needs()

            def remember(self, memory, window):
                return rule.remember(memory, window)

            def evaluate(self, window):
                verdict = rule.evaluate(window)
                results[name].append((window.global_step, type(verdict).__name__.lower()))
                return verdict

        return Spy()

    with tempfile.TemporaryDirectory() as folder:
        path = RunWriter(f"{folder}/run", batch_rows=3, segment_batches=2).write_all(scenario).end().path
        spies = [(name, spy(name, rule)) for name, rule in rules.items()]
        progress = Evaluator(path, spies, started_ns=START_NS).advance(is_over=True)
    assert [state["error"] for state in progress.rules.values() if state["error"]] == []
    return results


def verdict_name(fired: bool, judged: bool = True) -> str:
    return "fired" if fired else "clear" if judged else "undecided"


@dataclass
class Step:
    """The data of one step: numbers by (worker, tensor, statistic)."""

    step: int
    mode: str
    mode_step: int
    is_skipped: bool = False
    numbers: dict[tuple[str, str, str], float] = field(default_factory=dict)
    arrays: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)

    def of(self, statistic: str, *collections: str, ends: str = "") -> dict[tuple[str, str], float]:
        return {
            (worker, name): value
            for (worker, name, each), value in self.numbers.items()
            if each == statistic and set(collections) & set(INFOS[name].collections) and name.endswith(ends)
        }


def steps(scenario: Sequence[Part]) -> Iterator[Step]:
    found: dict[int, Step] = {}
    for part in scenario:
        mode_step = part.step if part.mode_step is None else part.mode_step
        here = found.setdefault(part.step, Step(part.step, part.mode, mode_step))
        if isinstance(part, ArrayStatistics):
            here.arrays |= {(part.worker, n, s): v for n, value in part.values.items() for s, v in value.items()}
            part = part.capture
        assert isinstance(part, Capture)
        if "clock" in part.values:
            here.is_skipped = True
        else:
            here.numbers |= {(part.worker, n, s): v for n, value in part.values.items() for s, v in value.items()}
    yield from (found[key] for key in sorted(found))


def trained(scenario: Sequence[Part]) -> Iterator[Step]:
    return (step for step in steps(scenario) if step.mode == "train")


def is_finite(value: float) -> bool:
    return math.isfinite(value)


def nonfinite(scenario: Sequence[Part]) -> Judged:
    results = []
    for step in trained(scenario):
        losses = any(not is_finite(value) for value in step.of("value", "losses").values())
        gradients = any(value > 0 for value in step.of("nonfinite_count", "gradients").values()) and not step.is_skipped
        if step.of("value", "losses") or step.of("nonfinite_count", "gradients", "weights", "biases", "layers"):
            results.append((step.step, verdict_name(losses or gradients)))
    return results


def exploding(scenario: Sequence[Part], factor: float, window: int, patience: int, warmup: int) -> Judged:
    results, past = [], {}
    phases: dict[str, tuple[set[str], int]] = {}
    for step in trained(scenario):
        norms, losses = step.of("value", "gradient_norms"), step.of("value", "losses")
        if not norms and not losses:
            continue
        for worker, name in losses:
            known, since = phases.get(worker, (set(), 0))
            phases[worker] = (known | {name}, since if name in known else step.mode_step)
        fired = judged = False
        for (worker, name), value in norms.items():
            values = past.setdefault((worker, name), [])
            values.append((step.mode_step, value))
            if name.endswith("norm") and (worker, f"{name}_before_clipping") in norms:
                continue
            since = phases[worker][1] if worker in phases else 0
            latest = values[-(max(window, warmup) + 5) :]
            seen = [one for at, one in latest[:-1] if at >= since] + [latest[-1][1]]
            before = [one for one in seen[:-5] if is_finite(one)]
            if len(before) < warmup:
                continue
            usual = max(statistics.median(before[-window:]), statistics.median(before[-3:]))
            if usual <= 0:
                continue
            judged = True
            logs = [math.log(one) for one in before[-window:] if one > 0]
            spread = 1.4826 * statistics.median(abs(one - statistics.median(logs)) for one in logs)
            bound = usual * max(factor, math.exp(4 * spread)) * max(1.0, min(20, window) / len(before))
            needed = 5 if name.endswith("_before_clipping") else patience
            fired |= sum(is_finite(one) and one > bound for one in seen[-5:]) >= needed
        results.append((step.step, "undecided" if step.is_skipped else verdict_name(fired, judged)))
    return results


def spikes(scenario: Sequence[Part], k: float, window: int, patience: int) -> Judged:
    results, past = [], {}
    for step in trained(scenario):
        fired, judged, falls, longest = False, False, False, 0
        for key, value in step.of("value", "losses").items():
            values = past.setdefault(key, [])
            values.append(value)
            seen = values[-(window + patience) :]
            before = [one for one in seen[:-patience] if is_finite(one)]
            latest = seen[-patience:]
            if len(before) < min(20, window) or not any(map(is_finite, latest)):
                continue
            judged = True
            usual = statistics.median(before)
            spread = 1.4826 * statistics.median(abs(one - usual) for one in before)
            start = statistics.median([one for one in values if is_finite(one)][:20])
            bound = max(usual + k * spread, usual + abs(usual) / 2, usual + 0.1 * (start - usual))
            bound = max(bound, 2 * max(before) - min(before)) if min(before) < 0 else bound
            known = [one for one in seen if is_finite(one)]
            run = next((count for count, one in enumerate(reversed(known)) if one <= bound), len(known))
            longest = max(longest, run)
            if run >= patience:
                is_falling = is_learned_again(known[-run:], usual)
                falls |= is_falling
                fired |= not is_falling
        judged &= not falls and 2 * longest <= patience
        results.append((step.step, verdict_name(fired, judged)))
    return results


def is_learned_again(high: list[float], usual: float) -> bool:
    half = len(high) // 2
    if half == 0:
        return False
    levels = [statistics.median(part) - usual for part in (high[:half], high[half:])]
    return levels[1] < 0.9 * levels[0] or mann_kendall(high[-max(5, half) :]).p_of_falling() < 0.05


def starts(scenario: Sequence[Part], factor: float, classes: int | None) -> Judged:
    results, seen, logits, counts_of = [], {}, set(), {}
    for step in trained(scenario):
        if step.mode_step >= 41:
            continue
        losses = step.of("value", "losses")
        if step.mode_step < 2:
            logits |= {worker for worker, name in step.of("abs_max", "predictions") if name.startswith("Cross")}
            known_labels = step.of("variance", "labels").items()
            counts_of |= {worker: 8 for (worker, _), value in known_labels if is_finite(value)}
        for key, value in losses.items():
            seen.setdefault(key, []).append(value)
        fired, counts, is_rising = False, [], False
        for (worker, name), value in losses.items():
            if not is_finite(value):
                continue
            values = seen[worker, name]
            counts.append(len(values))
            known = classes or (2 if worker in logits and name.startswith("Cross") else None)
            level = math.log(known or 2)
            labels = counts_of.get(worker, 0) if name.startswith("Cross") else 0
            level *= labels if labels and 0.5 <= values[0] / (level * labels) <= 2 else 1
            lowest = min((x for x in values[1:] if not math.isnan(x)), default=math.inf)
            fired |= bool(known) and len(values) >= 10 and factor * level < lowest < math.inf
            after = {
                key: min((x for x in rest if not math.isnan(x)), default=math.inf)
                for key, (_, *rest) in seen.items()
                if key[0] == worker
            }
            rising = all(low > 1.1 * abs(seen[key][0]) for key, low in after.items()) and values[0] > 0
            bound = 1.1 * level if known else 10 * values[0]
            is_rising |= rising and after[worker, name] > bound
        count = max(counts, default=0)
        results.append((step.step, verdict_name(fired, count >= 10 and not is_rising)))
    return results


def given_to_losses(scenario: Sequence[Part]) -> Judged:
    results, streaks = [], {}
    for step in trained(scenario):
        facts = step.of("value", "checks")
        kinds = {key: code for key, code in facts.items() if key[1].endswith("/loss_kind")}
        if not kinds or step.mode_step >= 2:
            continue
        fired, suspected, found = False, False, {}
        for (worker, name), code in kinds.items():
            call = name.partition("/")[0]
            activation = facts[worker, f"{call}/activation"]
            if code == 1 and activation in (2, 6):
                fired = True
            if code == 6 and activation in (2, 3, 6) and facts[worker, f"{call}/out_of_reach_share"] > 0.1:
                found[worker] = streaks.get(worker, 0) + 1
                fired |= found[worker] >= 2
                suspected = True
        streaks = found
        verdict = verdict_name(fired, not suspected)
        results.append((step.step, verdict if any(kinds.values()) else "notapplicable"))
    return results


def ignored(scenario: Sequence[Part], share: float) -> Judged:
    results, history, seen = [], {}, set()
    for step in trained(scenario):
        values, losses = step.of("value", "checks"), step.of("value", "losses")
        shares = {
            worker: value
            for (worker, name), value in values.items()
            if name == "cross_entropy/ignored_share" and values[worker, "cross_entropy/loss_kind"]
        }
        seen |= set(shares)
        of_workers = {worker for worker, _ in losses} | {
            worker for (worker, name), kind in values.items() if name.endswith("/loss_kind") and kind
        }
        has_facts = any(name.endswith(("/loss_kind", "/ignored_share")) for _, name in values)
        if not of_workers and not has_facts:
            continue
        fired = suspected = False
        for worker in of_workers:
            own = [value for (other, _), value in losses.items() if other == worker]
            is_without = shares.get(worker) == 1.0
            history.setdefault(worker, []).append(
                (is_without, is_without or any(math.isnan(value) or value == 0 for value in own))
            )
            latest = history[worker][-100:]
            without, odd = (sum(pair[at] for pair in latest) for at in (0, 1))
            all_without = len(history[worker]) == without >= 2
            is_often = odd >= 3 and odd > share * len(latest) and without >= 2
            fired |= is_without and (any(math.isnan(value) for value in own) or all_without or is_often)
            suspected |= is_without
        applies = bool(seen & of_workers)
        results.append((step.step, verdict_name(fired, not suspected) if applies else "notapplicable"))
    return results


def noted(scenario: Sequence[Part], end: str, first_steps: int) -> Judged:
    results = []
    for step in trained(scenario):
        counts = step.of("value", "checks", ends=end)
        if counts and step.mode_step < first_steps:
            results.append((step.step, verdict_name(any(counts.values()))))
    return results


def sorted_by_class(scenario: Sequence[Part], batches: int) -> Judged:
    results = []
    pure: dict[str, list[int]] = {}
    mixed: dict[str, int] = {}
    for step in trained(scenario):
        counts = {
            worker: values
            for (worker, name, statistic), values in step.arrays.items()
            if (name, statistic) == ("CrossEntropyLoss_input_1", "class_counts")
        }
        if not counts:
            continue
        fired = suspected = False
        most = 0
        for worker, values in counts.items():
            if not sum(values) >= 8:
                continue
            classes = [index for index, value in enumerate(values) if value]
            if len(classes) == 1:
                pure.setdefault(worker, []).append(classes[0])
            else:
                mixed[worker] = mixed.get(worker, 0) + 1
            of_one, several = pure.get(worker, []), mixed.get(worker, 0)
            most = max(most, len(of_one) + several)
            most_of_one = max(of_one.count(each) for each in of_one) if of_one else 0
            is_sorted = len(of_one) - most_of_one > 1 and several <= 0.2 * (len(of_one) + several)
            suspected |= is_sorted
            fired |= is_sorted and len(of_one) >= batches
        results.append((step.step, verdict_name(fired, most >= batches and not suspected)))
    return results


def counted(scenario: Sequence[Part], patience: int, ends: tuple[str, ...], modes: tuple[str, ...]) -> Judged:
    results = []
    for step in steps(scenario):
        counts = [value for end in ends for value in step.of("value", "checks", ends=end).values()]
        if counts and step.mode in modes:
            results.append((step.step, verdict_name(max(counts) >= patience, max(counts) == 0)))
    return results


def evaluated(scenario: Sequence[Part], patience: int) -> Judged:
    results: Judged = []
    known: dict[object, list[float]] = {}
    for step in steps(scenario):
        calls = step.of("value", "checks", ends="/eval_calls_in_train_mode")
        counts = [*calls.values(), *step.of("value", "checks", ends="/train_steps_in_eval_mode").values()]
        if not counts or step.mode not in ("train", "eval"):
            continue
        for key, count in calls.items():
            known.setdefault(key, []).append(count)
        fired = max(counts) >= patience or any(_add_up(known[key], patience) for key in calls)
        results.append((step.step, verdict_name(fired, max(counts) == 0)))
    return results


def _add_up(counts: list[float], patience: int) -> bool:
    several = [at for at, count in enumerate(counts) if count >= 3]
    has_pause = bool(several) and 0.0 in counts[several[0] :]
    return len(several) > 1 and has_pause and sum(counts[at] for at in several) >= patience


def lasts(seen: list[int], now: int, limit: int) -> int:
    """Add a capture; return how many there are, if they are that far apart."""
    seen.append(now)
    return len(seen) if now - seen[0] >= limit else 0


def learning(scenario: Sequence[Part], limit: int) -> Judged:
    results: Judged = []
    zero: dict[str, list[int]] = {}
    rate: dict[str, float] = {}
    outside: dict[str, list[int]] = {}
    first: dict[str, int] = {}
    still: dict[tuple[str, str], tuple[list[int], float, float]] = {}
    highest: dict[str, float] = {}
    steepest: dict[tuple[str, str], float] = {}
    for step in trained(scenario):
        sums = step.of("checksum", "weights", "biases")
        rates = step.of("value", "hyperparameters", ends="/lr")
        lost = step.of("value", "checks", ends="/outside_optimizers")
        captured = step.of("abs_max", "gradients") | step.of("value", "losses")
        if not sums and not rates and not lost and not captured:
            continue
        fired, now = False, step.mode_step
        for (worker, _), value in lost.items():
            outside[worker] = outside.get(worker, []) if value > 0 else []
            fired |= value > 0 and lasts(outside[worker], now, limit) >= 3
        for (worker, _), value in rates.items():
            rate[worker] = value
            highest[worker] = max(value, highest.get(worker, 0.0))
            zero[worker] = [] if value else zero.get(worker, [])
            fired |= value == 0 and lasts(zero[worker], now, limit) >= 3
        for (worker, name), value in sums.items():
            gradient = step.numbers.get((worker, f"gradient/{name}", "abs_max"), math.nan)
            seen, known, then = still.get((worker, name), ([], value, math.nan))
            current = rate.get(worker, math.nan)
            others = [size for (who, _), size in step.of("abs_max", "gradients").items() if who == worker]
            if not 1e-5 * max((size for size in others if size < math.inf), default=0) < gradient < math.inf:
                still.pop((worker, name), None)
                continue
            steepest[worker, name] = max(gradient, steepest.get((worker, name), 0.0))
            if gradient < 1e-3 * steepest[worker, name] or current < 1e-3 * highest.get(worker, 0.0):
                still.pop((worker, name), None)
                continue
            if (worker, name) not in still or known != value or current > then:
                seen, then = [], current
            still[worker, name] = (seen, value, then)
            fired |= lasts(seen, now, limit) >= 3
        present = {worker for worker, _ in (*sums, *rates, *lost, *step.of("value", "losses"))}
        is_pending = any(
            len(seen) == 2 and now - seen[0] >= limit
            for who, seen in (*((who, seen) for (who, _), (seen, *_) in still.items()), *zero.items())
            if who in present
        )
        ages = [now - first.setdefault(worker, now) >= limit for worker, _ in sums]
        results.append((step.step, verdict_name(fired, any(ages) and not is_pending)))
    return results


def unused(scenario: Sequence[Part], limit: int) -> Judged:
    results: Judged = []
    first: dict[tuple[str, str], tuple[int, float]] = {}
    held: set[tuple[str, str]] = set()
    used: set[tuple[str, str]] = set()
    for step in trained(scenario):
        sums = step.of("checksum", "weights", "biases")
        if not sums:
            continue
        held |= set(step.of("update_ratio", "weights", "biases"))
        fired = waiting = False
        for (worker, name), value in sums.items():
            since, known = first.setdefault((worker, name), (step.mode_step, value))
            if (worker, f"gradient/{name}", "abs_max") in step.numbers or known != value:
                used.add((worker, name))
            is_old = step.mode_step - since >= limit
            if (worker, name) in held:
                waiting |= (worker, name) not in used
                fired |= is_old and (worker, name) not in used
        results.append((step.step, verdict_name(fired, not waiting and not held.isdisjoint(sums))))
    return results


def collapsed(scenario: Sequence[Part], eps: float, patience: int) -> Judged:
    results, runs = [], {}
    for step in trained(scenario):
        stds = step.of("batch_std", "outputs")
        if not stds:
            continue
        fired = judged = suspected = False
        for (worker, name), std in stds.items():
            size = step.numbers[worker, name, "abs_mean"]
            is_judged = is_finite(std) and is_finite(size)
            judged |= is_judged
            runs[worker] = runs.get(worker, 0) + 1 if is_judged and std < eps * (1 + size) else 0
            fired |= is_judged and runs[worker] >= patience
            suspected |= is_judged and runs[worker] > 0
        results.append((step.step, verdict_name(fired, judged and not suspected)))
    return results


def saturated(scenario: Sequence[Part]) -> Judged:
    results = []
    for step in trained(scenario):
        sizes = step.of("abs_max", "weights")
        if not sizes:
            continue
        fired = judged = False
        updated = step.of("update_ratio", "weights")
        for (worker, name), size in sizes.items():
            if updated and (worker, name) not in updated:
                continue
            ends = [abs(step.numbers[worker, name, one]) for one in ("p0.5", "p99.5")]
            finite_ends = [one for one in ends if is_finite(one)]
            if is_finite(size) and finite_ends:
                judged = True
                fired |= size > 65504 / 2 or max(finite_ends) > 100 / math.sqrt(4)
        results.append((step.step, verdict_name(fired, judged)))
    return results


def rated(scenario: Sequence[Part], low: float, high: float, patience: int) -> Judged:
    results, past = [], {}
    rates: dict[str, list[float]] = {}
    for step in trained(scenario):
        ratios = step.of("update_ratio", "weights", "biases")
        for (worker, _), rate in step.of("value", "hyperparameters", ends="/lr").items():
            rates.setdefault(worker, []).append(rate)
        if not (ratios or step.of("value", "losses") or step.of("value", "hyperparameters", ends="/lr")):
            continue
        fired = judged = is_suspected = False
        for worker in {worker for worker, _ in ratios}:
            known = [value for (who, _), value in ratios.items() if who == worker and is_finite(value)]
            if not known or not statistics.median(known):
                continue
            latest = past.setdefault(worker, [])
            latest.append(statistics.median(known))
            is_high = all(one > high for one in latest[-patience:])
            is_low = all(one < low for one in latest[-patience:])
            is_late = worker in rates and rates[worker][-1] < 0.01 * max(rates[worker])
            fired |= len(latest) >= patience and (is_high or (is_low and not is_late))
            is_suspected |= len(latest) < patience and (is_high or is_low)
            judged |= len(latest) >= min(3, patience)
        results.append((step.step, verdict_name(fired, judged and not is_suspected)))
    return results


def skips(scenario: Sequence[Part], share: float, window: int) -> Judged:
    results, latest, count = [], [], 0
    for step in trained(scenario):
        if not step.of("value", "losses"):
            continue
        count += 1
        if latest or not step.is_skipped or count > window:
            latest.append(step.is_skipped)
        small = any(value < 1 for value in step.of("value", "hyperparameters", ends="/scale").values())
        seen = latest[-window:]
        is_clear = len(seen) > int(share * window) and sum(seen) / len(seen) <= share
        results.append((step.step, verdict_name(small or sum(seen) / window > share, is_clear)))
    return results


def replicas(scenario: Sequence[Part]) -> Judged:
    results: Judged = []
    agreed: dict[str, list[float]] = {}
    workers: set[str] = set()
    for step in trained(scenario):
        if step.step < 6:
            of_gradients = step.of("checksum", "gradients")
            for name in {name for _, name in of_gradients}:
                values = [value for (_, other), value in of_gradients.items() if other == name]
                if len(values) > 1 and len(set(values)) == 1:
                    agreed.setdefault(name, []).append(values[0])
        sums = step.of("checksum", "weights", "biases")
        if not sums:
            continue
        workers |= {worker for worker, _ in sums}
        fired = judged = False
        for tensor in {name for _, name in sums}:
            values = [value for (_, name), value in sums.items() if name == tensor]
            if len(values) < 2:
                continue
            if len(set(values)) == 1:
                agreed.setdefault(tensor, []).append(values[0])
            is_replica = len(set(agreed.get(tensor, ()))) > 1
            is_averaged = len(set(agreed.get(f"gradient/{tensor}", ()))) > 1 and tensor not in agreed
            judged |= is_replica
            fired |= (is_replica and len(set(values)) > 1) or is_averaged
        results.append((step.step, "notapplicable" if len(workers) < 2 else verdict_name(fired, judged)))
    return results


def scaled(scenario: Sequence[Part], ratio: float, offset: float, scale: float) -> Judged:
    results: Judged = []
    pools: dict[str, list[tuple[list[float], list[float], float, float]]] = {}
    given: dict[str, bool] = {}
    for step in trained(scenario):
        if not step.of("abs_max", "inputs"):
            continue
        fired, most = False, 0
        for (worker, name), size in step.of("abs_max", "inputs").items():
            means, stds = (step.arrays[worker, name, statistic] for statistic in ("unit_mean", "unit_std"))
            pool = pools.setdefault(worker, [])
            if all(map(is_finite, means + stds)):
                given.setdefault(worker, size / 3 <= step.numbers[worker, "a_input_0", "abs_max"] <= size * 3)
                if 40 * len(pool) < 64:
                    pool.append((means, stds, step.numbers[worker, name, "min"], size))
            if given.get(worker):
                most = max(most, len(pool))
            if given.get(worker) and 40 * len(pool) >= 64:
                fired |= is_unscaled(pool, ratio, offset, scale)
        decided = verdict_name(fired, 40 * most >= 64)
        results.append((step.step, decided if most else "notapplicable"))
    return results


def is_unscaled(
    pool: list[tuple[list[float], list[float], float, float]], ratio: float, offset: float, scale: float
) -> bool:
    mean = [sum(means[unit] for means, *_ in pool) / len(pool) for unit in range(2)]
    square = [sum(stds[unit] ** 2 + means[unit] ** 2 for means, stds, *_ in pool) / len(pool) for unit in range(2)]
    std = [math.sqrt(max(square[unit] - mean[unit] ** 2, 0.0)) for unit in range(2)]
    alive = [unit for unit in range(2) if std[unit] > 1e-6 * abs(mean[unit]) and std[unit] > 0]
    if not alive:
        return False
    whole = math.sqrt(max(sum(square) / 2 - (sum(mean) / 2) ** 2, 0.0))
    largest, lowest = max(size for *_, size in pool), min(low for *_, low, _ in pool)
    sizes = [std[unit] for unit in alive]
    return (
        (max(sizes) / min(sizes) > ratio and max(sizes) > 10)
        or any(abs(mean[unit]) > 10 and abs(mean[unit]) / std[unit] > offset for unit in alive)
        or whole > scale
        or (whole < 1 / scale and largest < 10 / scale)
        or (lowest >= 0 and 127 < largest <= 255 and whole > 16)
    )


CASES: dict[str, tuple[Callable[[Sequence[Part]], Judged], dict[str, object], tuple[object, ...]]] = {
    "nonfinite_origin": (nonfinite, {}, ()),
    "exploding_gradient": (exploding, {"factor": 5.0, "window": 4, "patience": 1, "warmup": 2}, (5.0, 4, 1, 2)),
    "loss_spike": (spikes, {"k": 2.0, "window": 3, "patience": 2}, (2.0, 3, 2)),
    "loss_at_start": (starts, {"factor": 1.5}, (1.5, None)),
    "loss_input": (given_to_losses, {}, ()),
    "ignored_labels": (ignored, {"share": 0.5}, (0.5,)),
    "consecutive_linear": (noted, {}, ("/consecutive_linear", 2)),
    "identical_units": (noted, {}, ("/identical_units", 1)),
    "sorted_batches": (sorted_by_class, {"batches": 2}, (2,)),
    "missing_zero_grad": (counted, {}, (5, ("/steps_without_zero_grad",), ("train",))),
    "lost_progress": (counted, {}, (3, ("/made_anew", "/initialized_again"), ("train",))),
    "eval_in_train_mode": (evaluated, {}, (10,)),
    "no_learning": (learning, {"steps": 4}, (4,)),
    "unused_parameter": (unused, {"steps": 5}, (5,)),
    "output_collapse": (collapsed, {"patience": 2}, (1e-5, 2)),
    "weight_saturation": (saturated, {}, ()),
    "unscaled_input": (scaled, {}, (1e3, 10.0, 100.0)),
    "learning_rate": (rated, {"patience": 3}, (1e-6, 0.1, 3)),
    "skipped_steps": (skips, {"window": 5, "share": 0.3}, (0.3, 5)),
    "replica_divergence": (replicas, {}, ()),
}


@settings(deadline=None, max_examples=60)
@given(scenario=diagnostic_scenarios())
def test_rules_equal_a_plain_loop(scenario: Sequence[Part]) -> None:
    rules = {name: find_rule(name)(**parameters) for name, (_, parameters, _) in CASES.items()}
    rules["classes_given"] = find_rule("loss_at_start")(classes=3)
    results = judged_by(rules, scenario)
    for name, (oracle, _, arguments) in CASES.items():
        assert (name, results[name]) == (name, oracle(scenario, *arguments))
    assert results["classes_given"] == starts(scenario, 2.0, 3)


def test_a_constant_metric_equals_a_plain_loop() -> None:
    values = [0.5 + 0.05 * math.sin(7 * step) + (0.01 * step if step > 300 else 0.0) for step in range(400)]
    scenario = [captured(at, {"accuracy": {"value": value}}) for at, value in enumerate(values)]
    results = judged_by({"it": MetricNotImproving(from_start=True)}, scenario)["it"]
    expected: Judged = []
    length, means, current, now = 1, [], [], "undecided"
    for step, value in enumerate(values):
        current.append(value)
        if len(current) == length:
            means.append(sum(current) / length)
            current = []
            if len(means) == 128:
                means = [(means[2 * at] + means[2 * at + 1]) / 2 for at in range(64)]
                length *= 2
            if step >= 299:
                half = means[len(means) // 2 :]
                rises = sum((b > a) - (b < a) for i, a in enumerate(half) for b in half[i + 1 :])
                n = len(half)
                z = (rises - math.copysign(1, rises)) / math.sqrt(n * (n - 1) * (2 * n + 5) / 18) if rises else 0.0
                p = 1 - statistics.NormalDist().cdf(z)
                start = statistics.fmean(means[: max(1, len(means) // 10)])
                better = statistics.fmean(half) - start
                most_p, errors = (0.001, 4) if now == "fired" else (0.01, 2)
                now = verdict_name(p > most_p and better <= errors * statistics.pstdev(half) / math.sqrt(n))
        expected.append((step, now))
    assert results == expected
    assert {verdict for _, verdict in results} == {"undecided", "fired", "clear"}


def test_mann_kendall_equals_a_published_example() -> None:
    """Gilbert 1987, example 16.4: S = 8 of 10, 15, 14, 20 … with ties counted as none."""
    assert mann_kendall([10, 15, 14, 20]).score == 4
    tied = mann_kendall([10, 22, 21, 30, 22, 30, 40, 40])
    count, ties = 8, (2, 2, 2)
    variance = (count * 7 * 21 - sum(t * (t - 1) * (2 * t + 5) for t in ties)) / 18
    assert tied.z == pytest.approx((tied.score - 1) / math.sqrt(variance))
    assert mann_kendall([1.0, 1.0, 1.0]).z == 0.0
    assert mann_kendall([]).p_of_rising() == 0.5
