"""Scenarios of hardware metrics and steps, generated from a seed, for the time-based rules."""

from __future__ import annotations

import random
from collections.abc import Mapping

from timelines import CPU, IOWAIT, MEMORY, RSS, gpu, merge_by_time, sampled, training

from leadline.records.metric import Channel
from leadline.testing.runs import SECOND_NS, START_NS, Part, SystemSample

_EVERY_MS = 500.0


def system_scenario(seed: int, *, seconds: int = 30) -> list[Part]:
    """Generate a job of one or two nodes, zero to three GPUs and one to three ranks, with gaps and variations."""
    chance = random.Random(seed)
    count = round(seconds * 1000 / _EVERY_MS)
    nodes = ["node", "other"][: chance.choice((1, 1, 2))]
    timelines: list[list[Part]] = [list(_machine(chance, node, count)) for node in nodes]
    ranks = chance.choice((0, 1, 1, 2, 3))
    begin_ns = START_NS + chance.randrange(3) * SECOND_NS
    usual = {"data": 5.0, "forward": 30.0, "backward": 60.0, "optimizer": 10.0}
    for rank in range(ranks):
        timelines.append(_rank(chance, rank, begin_ns, usual))
    return merge_by_time(*timelines)


def _machine(chance: random.Random, node: str, count: int) -> list[SystemSample]:
    channels = [CPU, IOWAIT, MEMORY, RSS]
    for number in range(chance.choice((0, 1, 2))):
        metrics = ("utilization_percent", "memory_used_percent", "thermal_throttle_percent", "power_throttle_percent")
        channels += [gpu(number, metric) for metric in metrics]
    values = {channel: _curve(chance, channel, count) for channel in channels if chance.random() < 0.9}
    return [sample for sample in sampled(values, node=node, every_ms=_EVERY_MS) if chance.random() < 0.97]


def _curve(chance: random.Random, channel: Channel, count: int) -> list[float]:
    """Return values around a level that may change halfway."""
    if channel == RSS:
        growth = chance.choice((0.0, 0.0, 8e6))
        return [1e9 + growth * index + chance.uniform(0, 1e6) for index in range(count)]
    if channel.metric.endswith("throttle_percent"):
        share = chance.choice((0.0, 0.05, 0.5))
        return [100.0 if chance.random() < share else 0.0 for _ in range(count)]
    before, after = (chance.choice((2.0, 40.0, 69.9, 80.0, 97.0)) for _ in range(2))
    turn = count // 2 if chance.random() < 0.5 else count
    return [min(100.0, (before if index < turn else after) + chance.uniform(0, 3)) for index in range(count)]


def _rank(chance: random.Random, rank: int, begin_ns: int, usual: Mapping[str, float]) -> list[Part]:
    slow = chance.choice((None, None, *usual))
    turn = chance.choice((0, 60))
    steps = []
    for step in range(chance.choice((40, 110))):
        phases = {name: length_ms * chance.uniform(0.95, 1.05) for name, length_ms in usual.items()}
        if slow and step >= turn:
            phases[slow] += 70.0
        if chance.random() < 0.03:
            phases["checkpoint"] = chance.choice((5.0, 900.0))
        phases["collective"] = chance.uniform(1.0, 20.0)
        steps.append(phases)
    within = {"collective": "backward"} if chance.random() < 0.5 else {}
    worker = f"rank{rank}-{rank + 7}"
    return training(steps, worker=worker, start_ns=begin_ns, within=within, other_ms=chance.choice((0.5, 3.0)))
