"""Stories of machines and of steps, drawn from one number: what rules of time look at."""

from __future__ import annotations

import random
from collections.abc import Mapping

from leadline.records.metric import Channel
from leadline.testing.runs import SECOND_NS, START_NS, Heartbeat, Part
from leadline.testing.timelines import CPU, IOWAIT, MEMORY, RSS, gpu, in_time, sampled, training

_EVERY_MS = 500.0


def system_story(seed: int, *, seconds: int = 30) -> list[Part]:
    """A job of one or two nodes, none to three GPUs and one to three ranks; sensors drop out, ranks and steps vary."""
    chance = random.Random(seed)
    count = round(seconds * 1000 / _EVERY_MS)
    nodes = ["node", "other"][: chance.choice((1, 1, 2))]
    stories: list[list[Part]] = [list(_machine(chance, node, count)) for node in nodes]
    ranks = chance.choice((0, 1, 1, 2, 3))
    begin_ns = START_NS + chance.randrange(3) * SECOND_NS
    usual = {"data": 5.0, "forward": 30.0, "backward": 60.0, "optimizer": 10.0}
    for rank in range(ranks):
        stories.append(_rank(chance, rank, begin_ns, usual))
    return in_time(*stories)


def _machine(chance: random.Random, node: str, count: int) -> list[Heartbeat]:
    channels = [CPU, IOWAIT, MEMORY, RSS]
    for number in range(chance.choice((0, 1, 2))):
        metrics = ("utilization_percent", "memory_used_percent", "thermal_throttle_percent", "power_throttle_percent")
        channels += [gpu(number, metric) for metric in metrics]
    values = {channel: _course(chance, channel, count) for channel in channels if chance.random() < 0.9}
    return [each for each in sampled(values, node=node, every_ms=_EVERY_MS) if chance.random() < 0.97]


def _course(chance: random.Random, channel: Channel, count: int) -> list[float]:
    """Around a level that may change halfway."""
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
        phases = {name: each * chance.uniform(0.95, 1.05) for name, each in usual.items()}
        if slow and step >= turn:
            phases[slow] += 70.0
        if chance.random() < 0.03:
            phases["checkpoint"] = chance.choice((5.0, 900.0))
        phases["collective"] = chance.uniform(1.0, 20.0)
        steps.append(phases)
    within = {"collective": "backward"} if chance.random() < 0.5 else {}
    worker = f"rank{rank}-{rank + 7}"
    return training(steps, worker=worker, start_ns=begin_ns, within=within, other_ms=chance.choice((0.5, 3.0)))
