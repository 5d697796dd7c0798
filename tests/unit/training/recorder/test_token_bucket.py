"""The overhead budget, in simulated trainings with a fake clock."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from leadline.config.presets import FIRST_STEPS
from leadline.records.plan import CaptureItem, Schedule
from leadline.training.recorder.budget import CAPTURES_SHARE, PATIENCE, RESERVE_SHARE, SAVED_NS, START_NS, Budget
from leadline.training.recorder.capture_groups import split
from leadline.training.recorder.overhead import Overhead
from leadline.training.recorder.schedule import CaptureSchedule

MS = 1_000_000
SECOND = 1000 * MS


def item(collection: str, *statistics: str, every: int = 50, source: str = "preset", **more: object) -> CaptureItem:
    schedule = Schedule(every=every, steps=FIRST_STEPS)
    return CaptureItem(collection, None, statistics, **{"schedule": schedule, "source": source} | more)  # type: ignore[arg-type]


@dataclass
class Training:
    """A simulated training, in which each statistic has a price."""

    items: Iterable[CaptureItem]
    prices: Mapping[str, float]
    """By statistic, in ns; ``raw`` for raw tensors. Statistics of ``layers`` are captured in the forward pass."""
    step_ns: float = 10 * MS
    base_ns: float = 20_000
    share: float = 0.02
    noise: random.Random | None = None
    """Doubles prices and step times at random."""
    ranks: int = 1
    captures_together: bool = False
    first_ns: float = 0
    """What the first capture costs beside its price."""
    now: int = 1
    captured: dict[str, list[int]] = field(default_factory=dict)
    own: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.step = 0
        self.cost = Overhead(clock=lambda: self.now)
        self.budget = Budget(
            self.share,
            self.cost,
            step=lambda: self.step,
            is_distributed=lambda: self.ranks > 1,
            captures_together=lambda: self.captures_together,
        )
        items = split(self.items)
        forward = [item for item in items if item.collection == "layers"]
        tensors = [item for item in items if item.collection != "layers"]
        self.forward = CaptureSchedule(forward, self.budget, is_forward=True)
        self.tensors = CaptureSchedule(tensors, self.budget)

    def run(self, steps: int) -> Training:
        for _ in range(steps):
            self._step()
        return self

    def _step(self) -> None:
        forward = self.forward.advance_to(self.step)
        self._pass(self.step_ns)
        begun, first = self.cost.begin(), self.now
        tensors = self.tensors.advance_to(self.step)
        self._pass(self.base_ns)
        cost = self._capture(tensors, is_raw=False)
        self.budget.charge(self.tensors.groups(tensors), "tensors", cost)
        cost = self._capture(tensors, is_raw=True)
        self.budget.charge(self.tensors.groups(tensors), "raw", cost)
        cost = self._capture(forward, is_raw=False)
        self.budget.charge(self.forward.groups(forward), "forward", cost)
        self.budget.end_step()
        self.cost.end(begun)
        self.own.append(self.now - first)
        self.step += 1

    def _capture(self, items: Iterable[CaptureItem], *, is_raw: bool) -> int:
        begun = self.now
        names = {"raw"} if is_raw and any(item.raw for item in items) else set()
        names |= set() if is_raw else {name for item in items for name in item.statistics}
        for name in sorted(names):
            self._pass(self.prices.get(name, 0) + (0 if name in self.captured else self.first_ns))
            self.captured.setdefault(name, []).append(self.step)
        return self.now - begun

    def _pass(self, ns: float) -> None:
        self.now += round(ns * (1 if self.noise is None else self.noise.choice((1, 2))))

    def gaps(self, name: str) -> list[int]:
        steps = self.captured[name]
        return [later - earlier for earlier, later in zip(steps, [*steps[1:], self.step], strict=True)]


def requested(steps: int, every: int = 50) -> list[int]:
    return [step for step in range(steps) if step % every == 0 or step in FIRST_STEPS]


def allowed_ns(training: Training, dearest: float) -> float:
    """The definition: what there is at the start, then the share; and one capture of debt."""
    elapsed = sum(training.step_ns + own for own in training.own)
    allowed = (1 + RESERVE_SHARE) * START_NS + training.share * elapsed
    first_captures = sum(training.prices.values()) * 2
    return allowed + dearest + first_captures


@pytest.mark.parametrize("step_ms", [0.3, 3, 30, 300])
@pytest.mark.parametrize("price_ms", [0.1, 1, 10, 200])
@pytest.mark.parametrize("every", [1, 50])
def test_the_overhead_stays_within_the_share(step_ms: float, price_ms: float, every: int) -> None:
    steps = 3000
    items = [item("gradients", "l2", every=every), item("layers", "max", every=every)]
    prices = {"l2": price_ms * MS, "max": 2 * price_ms * MS}
    training = Training(items, prices, step_ns=step_ms * MS, base_ns=0.005 * step_ms * MS).run(steps)
    spent, allowed = sum(training.own), allowed_ns(training, 2 * price_ms * MS)
    assert spent <= 1.02 * allowed
    asked = sum(prices.values()) * len(requested(steps, every))
    assert spent >= min(0.9 * asked, 0.5 * (allowed - SAVED_NS))  # the budget is not left unused


@pytest.mark.parametrize("step_ms", [0.3, 3, 30])
@pytest.mark.parametrize("ranks", [1, 2])
def test_nothing_starves(step_ms: float, ranks: int) -> None:
    """Many cheap items that alone exceed the budget, and dear ones; the longest gap is bounded for each."""
    cheap = [item(name, name, every=1) for name in ("a", "b", "c", "d")]
    dear = [item("layers", "max", every=500), item("gradients", every=500, raw=True)]
    prices = {"a": MS, "b": MS, "c": MS, "d": MS, "max": 50 * MS, "raw": 20 * MS}
    training = Training([*cheap, *dear], prices, step_ns=step_ms * MS, base_ns=0, ranks=ranks)
    training.run(round(30_000 / step_ms**0.5))
    income = training.share * training.step_ns
    patience = (len(prices) + PATIENCE) * sum(prices.values()) / income
    for name in prices:
        assert max(training.gaps(name)) <= 500 * ranks + 2 * ranks * patience, name


def test_captures_continue_where_a_step_alone_exceeds_the_share() -> None:
    """A quarter of what is earned is left for captures."""
    training = Training([item("gradients", "l2", every=1)], {"l2": MS}, step_ns=MS, base_ns=MS / 10).run(40_000)
    captures = len([step for step in training.captured["l2"] if step >= 20_000])
    expected = CAPTURES_SHARE * training.share * 1.1 * MS * 20_000 / MS
    assert captures == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("used_processors", [0, 1, 2])
def test_the_writer_is_paid_for_in_proportion_to_the_processors_that_are_used(
    used_processors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer takes 1 % of the time; the captures, which want far more than the share, get the rest of it."""
    now = [0]
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("time.process_time_ns", lambda: used_processors * now[0])
    training = Training([item("gradients", "l2", every=10)], {"l2": 5 * MS}, base_ns=0)
    training.budget._credit = 0.0
    for _ in range(20_000):
        now[0], training.cost.writer_ns = training.now, training.now // 100
        training.run(1)
    writer_share = 0.01 * used_processors / 2
    assert sum(training.own) / training.now == pytest.approx(training.share - writer_share, rel=0.05)


def test_captures_within_the_budget_are_never_delayed() -> None:
    training = Training([item("gradients", "l2")], {"l2": 5 * MS}).run(2000)
    assert training.captured["l2"] == requested(2000)
    assert training.budget.sampled({"train": 2000}) == ()


@pytest.mark.parametrize("first_ms", [0, 150])
def test_a_short_run_is_captured_whole(first_ms: float) -> None:
    items = [item("gradients", "l2"), item("layers", "max", every=500)]
    prices = {"l2": 3 * MS, "max": 20 * MS}
    training = Training(items, prices, step_ns=MS, first_ns=first_ms * MS).run(300)
    assert training.captured == {"l2": requested(300), "max": requested(300, 500)}


def test_the_first_capture_is_not_taken_for_the_price() -> None:
    training = Training([item("gradients", "l2")], {"l2": MS}, step_ns=30 * MS, first_ns=2 * SECOND).run(3000)
    assert training.captured["l2"] == requested(3000)


def test_a_delayed_capture_runs_at_one_of_the_steps_after_the_credit_suffices() -> None:
    training = Training([item("gradients", "l2", every=1)], {"l2": 2 * MS}, base_ns=0).run(20_000)
    settled = [gap for step, gap in zip(training.captured["l2"], training.gaps("l2"), strict=True) if step > 15_000]
    assert 9 <= sum(settled) / len(settled) <= 12  # 2 % of 10 ms and of the capture itself
    assert max(settled) <= 16  # delayed groups are tried again together


def test_a_delay_of_few_steps_is_not_rounded_up_to_many() -> None:
    """Steps of a second would make the verdict wait for a quarter of a minute."""
    training = Training([item("gradients", "l2", every=1)], {"l2": 50 * MS}, base_ns=0, step_ns=SECOND).run(4000)
    settled = [gap for step, gap in zip(training.captured["l2"], training.gaps("l2"), strict=True) if step > 3000]
    assert 2.3 <= sum(settled) / len(settled) <= 3  # 2 % of a second and of the capture itself
    assert max(settled) <= 4


def test_gradient_norms_and_counts_are_not_delayed_by_dear_statistics() -> None:
    items = [
        item("gradient_norms", "value", every=10),
        item("gradients", "std", "nonfinite_count"),
        item("layers", "max", every=1),
    ]
    prices = {"value": MS / 10, "nonfinite_count": MS / 2, "std": 5 * MS, "max": 50 * MS}
    training = Training(items, prices, step_ns=5 * MS).run(5000)
    assert training.captured["value"] == requested(5000, 10)
    assert training.captured["nonfinite_count"] == requested(5000)
    assert len(training.captured["max"]) < 500


def test_counts_raised_to_every_step_do_not_displace_what_is_scheduled() -> None:
    """A stopping action raises them; gradient norms keep their interval, and the counts use what is left."""
    raised = item("all", "nonfinite_count", source="rule:exploding_tensor", schedule=Schedule(every=1))
    training = Training([item("gradient_norms", "value", every=10), raised], {"value": MS / 10, "nonfinite_count": MS})
    training.step_ns = 5 * MS
    training.run(20_000)
    assert training.captured["value"] == requested(20_000, 10)
    assert 5000 / 50 < len([step for step in training.captured["nonfinite_count"] if step >= 15_000]) < 5000 / 5


@pytest.mark.parametrize(("step_ms", "is_delayed"), [(0.2, True), (5, False)])
def test_loop_checks_are_delayed_by_tiny_steps_only(step_ms: float, is_delayed: bool) -> None:
    training = Training([], {}, step_ns=step_ms * MS)
    checks = CaptureSchedule([item("checks", "value", every=10)], training.budget)
    taken = []
    for step in range(50_000):
        training.run(1)
        taken += [step] if checks.advance_to(step) else []
        training.budget.end_step()
    late = [after - before for before, after in pairwise(taken) if before > 30_000]
    assert set(late) == {10} if not is_delayed else sum(late) > 14 * len(late)


def test_what_was_delayed_is_requested_again_at_few_steps() -> None:
    training = Training([item("gradients", "l2", every=10)], {"l2": 2 * MS}, step_ns=MS, base_ns=0).run(10_000)
    tried = []
    for step in range(10_000, 20_000):
        tried += [step] if training.tensors.next_step <= step else []
        training.run(1)
    assert training.captured["l2"][-1] > 19_000
    assert len(tried) < 10_000 // 30


def test_options_are_never_delayed_nor_charged() -> None:
    option = CaptureItem("weights", None, ("l2",), schedule=Schedule(every=1), source="option")
    training = Training([option, item("gradients", "std")], {"l2": 50 * MS, "std": 5 * MS}).run(1000)
    assert training.captured["l2"] == list(range(1000))
    assert training.captured["std"] == requested(1000)


def test_an_option_replaces_what_it_covers() -> None:
    option = CaptureItem("gradients", None, ("l2",), schedule=Schedule(every=1), source="option")
    parts = split([option, item("gradients", "l2", "std", "nan_count", raw=True)])
    assert [(part.source, part.statistics, part.raw) for part in parts] == [
        ("option", ("l2",), False),
        ("preset", ("nan_count",), False),
        ("preset", ("std",), False),
        ("preset", (), True),
    ]


def test_a_noisy_machine_gives_about_the_same_captures() -> None:
    items = [item("gradients", "l2"), item("gradient_norms", "value", every=10), item("layers", "max", every=500)]
    prices = {"l2": 8 * MS, "value": MS / 20, "max": 30 * MS}
    quiet = Training(items, {name: 1.5 * price for name, price in prices.items()}, step_ns=7.5 * MS).run(5000)
    for seed in range(3):
        noisy = Training(items, prices, step_ns=5 * MS, noise=random.Random(seed)).run(5000)
        assert noisy.captured["value"] == quiet.captured["value"]
        for name in ("l2", "max"):
            assert len(noisy.captured[name]) == pytest.approx(len(quiet.captured[name]), rel=0.2, abs=2)


@pytest.mark.parametrize(("every", "price_ms"), [(1, 1), (1, 7), (10, 20), (50, 200)])
def test_ranks_with_different_prices_capture_the_same_steps(every: int, price_ms: float) -> None:
    """Prices differ by 30 %; nearly all captures of the dearer rank are also captures of the other."""
    fast, slow = (
        Training([item("gradients", "l2", every=every)], {"l2": factor * price_ms * MS}, ranks=2).run(20_000)
        for factor in (1.0, 1.3)
    )
    common = set(fast.captured["l2"]) & set(slow.captured["l2"])
    assert len(common) >= 0.75 * len(slow.captured["l2"])
    assert common >= {0, 1, 2}
    assert len(slow.captured["l2"]) >= 0.7 * len(fast.captured["l2"])  # nothing is left unused either


def test_ranks_whose_captures_communicate_capture_what_the_number_of_the_step_says() -> None:
    items = [item("gradients", "l2", every=10), item("weights", "max", every=50), item("layers", "mean", every=100)]
    captured = []
    for price_ms in (0.01, 300):
        prices = {"l2": price_ms * MS, "max": price_ms * MS, "mean": price_ms * MS}
        captured.append(Training(items, prices, ranks=2, captures_together=True).run(1000).captured)
    assert captured[0] == captured[1]
    assert captured[0]["l2"] == [step for step in requested(1000, 10) if step <= 100 or step % 50 == 0]
    assert captured[0]["max"] == requested(1000, 50)


def test_an_optimizer_that_steps_rarely_is_captured_in_a_job_of_several_ranks() -> None:
    training = Training([item("gradients", "l2", every=10)], {"l2": 20 * MS}, ranks=2)
    taken = []
    for step in range(1, 20_000, 5):
        training.step = step
        training.now += 50 * MS
        items = training.tensors.advance_to(step)
        training.now += 20 * MS if items else 0
        training.budget.charge(training.tensors.groups(items), "tensors", 20 * MS)
        training.budget.end_step()
        taken += [step] if items else []
    assert len([step for step in taken if step > 10_000]) >= 60


def test_a_pause_is_not_followed_by_a_burst() -> None:
    training = Training([item("gradients", "l2", every=1)], {"l2": 100 * MS}).run(6000)
    before = len(training.captured["l2"])
    training.now += 1000 * SECOND
    training.run(50)
    assert len(training.captured["l2"]) - before <= SAVED_NS / (100 * MS) + 2


def test_what_was_captured_is_recorded() -> None:
    training = Training([item("gradients", "l2", every=1)], {"l2": 2 * MS}, base_ns=0).run(20_000)
    (record,) = training.budget.sampled({"train": 20_000})
    assert (record.collection, record.statistics, record.mode, record.sources) == (
        "gradients",
        ("l2",),
        "train",
        ("preset",),
    )
    assert (record.requested_every, record.steps) == (1, 20_000)
    assert record.captures == len(training.captured["l2"])
    assert 19_980 <= record.requests <= 20_000  # as of the last attempt
    assert record.longest_gap == max(training.gaps("l2")[:-1])


def test_a_changed_plan_keeps_credit_and_records() -> None:
    training = Training([item("gradients", "l2", every=1)], {"l2": 20 * MS}, base_ns=0).run(5000)
    before = training.budget.sampled({"train": 5000})[0].captures
    training.tensors = CaptureSchedule(split(training.items), training.budget)
    training.run(200)
    assert len(training.captured["l2"]) - before <= 8
    assert training.budget.sampled({"train": 5200})[0].captures == len(training.captured["l2"])


def test_the_overhead_of_the_first_steps_is_kept() -> None:
    training = Training([item("losses", "value", every=1), item("gradients", "l2")], {"value": 0, "l2": 40 * MS})
    assert training.run(50).budget.start is None
    start = training.run(10).budget.start
    assert start is not None
    assert start.steps == 51
    assert start.own_ns == sum(training.own[:51])
    assert training.run(1000).budget.start == start
    assert start.own_ns / start.loop_ns > 3 * (training.cost.own_ns - start.own_ns) / (
        training.cost.loop_ns - start.loop_ns
    )


def test_the_costs_of_captures_are_recorded_and_are_all_that_their_steps_cost() -> None:
    items = [item("gradients", "l2"), item("layers", "max", every=500)]
    training = Training(items, {"l2": 2 * MS, "max": 20 * MS}, step_ns=100 * MS, base_ns=MS).run(1000)
    costs = {cost.collections: cost for cost in training.budget.costs()}
    assert costs["gradients",].captures == len(training.captured["l2"])
    assert costs["layers",].captures == len(training.captured["max"])
    spent = {name: len(training.captured[name]) * training.prices[name] for name in ("l2", "max")}
    assert costs["layers",].own_ns == pytest.approx(spent["max"], rel=0.25)
    assert sum(cost.own_ns for cost in costs.values()) == pytest.approx(sum(spent.values()), rel=0.15)
