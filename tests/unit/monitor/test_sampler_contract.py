"""The contract of the sampler protocol, for every sampler on this machine."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_gpu import FakeDriver

from leadline.monitor.gpu import GpuSampler, NoGpuSampler
from leadline.monitor.machine import machine_samplers
from leadline.monitor.processes import ProcessTree, identify
from leadline.monitor.sampler import Sampler

KINDS = ("cpu", "memory", "disk", "network", "process", "gpu", "fake gpu", "no gpu")


@pytest.fixture(params=KINDS)
def sampler(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sampler]:
    if request.param == "fake gpu":
        yield GpuSampler(FakeDriver(), None)
    elif request.param == "no gpu":
        yield NoGpuSampler("because")
    else:
        tree = ProcessTree(first={identify(os.getpid()) or (0, 0)})
        yield machine_samplers(str(tmp_path), tree)[KINDS.index(request.param)]


def test_one_value_for_each_channel_every_time(sampler: Sampler) -> None:
    for now in (0.0, 0.5, 1.0):
        assert len(sampler.sample(now)) == len(sampler.channels)


def test_the_channels_stay_the_same_tuple(sampler: Sampler) -> None:
    sampler.sample(0.0)
    before = sampler.channels
    sampler.sample(0.5)
    assert sampler.channels is before


def test_channels_are_of_its_kind_and_unique(sampler: Sampler) -> None:
    sampler.sample(0.0)
    assert {channel.kind for channel in sampler.channels} <= {sampler.kind}
    assert len(set(sampler.channels)) == len(sampler.channels)


def test_the_unit_ends_the_name(sampler: Sampler) -> None:
    sampler.sample(0.0)
    units = ("_percent", "_bytes", "_per_second", "_count", "_celsius", "_watts")
    assert all(channel.metric.endswith(units) for channel in sampler.channels)


def test_values_are_finite_and_percents_are_percents(sampler: Sampler) -> None:
    for now in (0.0, 0.5):
        for channel, value in zip(sampler.channels, sampler.sample(now), strict=False):
            assert value is None or (math.isfinite(value) and value >= 0)
            if value is not None and channel.metric.endswith("_percent") and channel.kind != "process":
                assert value <= 100


def test_a_rate_is_absent_at_first(sampler: Sampler) -> None:
    first = sampler.sample(0.0)
    rates = [channel.metric.endswith("_per_second") for channel in sampler.channels]
    assert all(value is None for value, is_rate in zip(first, rates, strict=True) if is_rate)


def test_absent_values_have_a_reason(sampler: Sampler) -> None:
    sampler.sample(0.0)
    assert all(why for why in sampler.absent.values())
