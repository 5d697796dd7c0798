"""Rules on hardware metrics: clear exactly on their bounds, their messages, and invalid parameters."""

from __future__ import annotations

from typing import Any

import pytest
from timelines import CPU, IOWAIT, MEMORY, gpu, merge_by_time, sampled, training

from leadline.errors import ConfigurationError
from leadline.judge.evaluator import Evaluator
from leadline.rules.registry import find_rule
from leadline.testing.runs import START_NS, Part, RunWriter

SOON = {"patience": 2, "window": 10}


def evaluate(tmp_path, name: str, scenario: list[Part], **parameters: Any) -> tuple[str, str, list[dict[str, Any]]]:
    """Return the verdict, the reason, and the events."""
    path = RunWriter(tmp_path / "run", batch_rows=20).write_all(scenario).end().path
    progress = Evaluator(path, [("it", find_rule(name)(**parameters))], started_ns=START_NS).advance(is_over=True)
    state = progress.rules["it"]
    assert state["error"] is None
    return state["verdict"], state["why"], [event for _, event in progress.events]


def level(count: int = 40, **values: float) -> list[Part]:
    channels = {
        "cpu": CPU,
        "iowait": IOWAIT,
        "memory": MEMORY,
        "gpu": gpu(0),
        "gpu1": gpu(1),
        "gpu_memory": gpu(0, "memory_used_percent"),
    }
    return list(sampled({channels[name]: [value] * count for name, value in values.items()}))


@pytest.mark.parametrize(
    ("name", "parameters", "values"),
    [
        ("cpu_bottleneck", {"patience": 2}, {"cpu": 90.0, "gpu": 3.0}),
        ("cpu_bottleneck", {"patience": 2}, {"cpu": 99.0, "gpu": 10.0}),
        ("io_bottleneck", {"patience": 2}, {"iowait": 50.0, "gpu": 3.0}),
        ("io_bottleneck", {"patience": 2}, {"iowait": 60.0, "gpu": 70.0}),
        ("batch_size", SOON, {"cpu": 70.0, "gpu": 3.0, "gpu_memory": 3.0}),
        ("batch_size", SOON, {"cpu": 3.0, "gpu": 3.0, "gpu_memory": 70.0}),
        ("low_gpu_utilization", SOON, {"gpu": 70.0}),
        ("cpu_utilization", SOON, {"cpu": 95.0}),
        ("cpu_utilization", SOON, {"cpu": 5.0}),
        ("hardware_utilization", SOON, {"cpu": 95.0, "memory": 95.0, "gpu": 20.0}),
    ],
)
def test_a_rule_is_clear_on_its_bound(
    tmp_path, name: str, parameters: dict[str, Any], values: dict[str, float]
) -> None:
    assert evaluate(tmp_path, name, level(**values), **parameters)[::2] == ("clear", [])


@pytest.mark.parametrize(
    "name",
    [
        "cpu_bottleneck",
        "io_bottleneck",
        "batch_size",
        "low_gpu_utilization",
        "gpu_memory_increase",
        "load_balancing",
        "gpu_throttling",
    ],
)
def test_gpu_rules_are_not_applicable_without_a_gpu(tmp_path, name: str) -> None:
    scenario = level(cpu=99.0, iowait=60.0, memory=50.0)
    assert evaluate(tmp_path, name, scenario) == ("not_applicable", "no GPU was sampled", [])


@pytest.mark.parametrize("name", ["low_gpu_utilization", "gpu_throttling"])
def test_gpu_rules_are_undecided_if_nothing_was_sampled(tmp_path, name: str) -> None:
    scenario = training([{"forward": 100.0}] * 80)
    assert evaluate(tmp_path, name, scenario) == ("undecided", "no system metrics were sampled", [])


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_half_of_the_samples_is_not_more_than_half(tmp_path, bad: int) -> None:
    idle = [3.0 if index % 2 == 0 else 95.0 for index in range(38)] + [3.0] * bad * 2
    scenario = list(sampled({gpu(0): idle, CPU: [99.0] * len(idle)}))
    verdict, _, events = evaluate(tmp_path, "cpu_bottleneck", scenario, patience=0)
    assert verdict == ("fired" if bad else "clear")
    assert [event["evidence"]["bad_samples"] > event["evidence"]["samples"] / 2 for event in events] == [True] * len(
        events
    )


def test_the_phases_of_the_bad_samples_are_named(tmp_path) -> None:
    """The CPU is full during the data phase; phases at other times are not named."""
    scenario = merge_by_time(
        training([{"data": 3000.0, "forward": 1000.0}] * 5),
        sampled({gpu(0): ([2.0] * 6 + [95.0] * 2) * 5, CPU: ([99.0] * 6 + [30.0] * 2) * 5}),
    )
    _, _, (opened, *_) = evaluate(tmp_path, "cpu_bottleneck", scenario, patience=0)
    assert opened["message"].endswith("; meanwhile: 100 % data")
    assert opened["evidence"]["phases"]["data"] == pytest.approx(1.0)


def test_an_episode_closes_when_the_machine_recovers(tmp_path) -> None:
    scenario = list(sampled({CPU: [99.0] * 30 + [50.0] * 30}))
    verdict, _, events = evaluate(tmp_path, "cpu_utilization", scenario, **SOON)
    assert verdict == "fired"
    assert [event["event"] for event in events] == ["opened", "closed"]


def test_a_gpu_that_is_idle_at_times_fluctuates(tmp_path) -> None:
    scenario = list(sampled({gpu(0): ([95.0] * 8 + [1.0, 1.0]) * 5}))
    _, _, (opened, *_) = evaluate(tmp_path, "low_gpu_utilization", scenario, **SOON)
    assert opened["evidence"]["kind"] == "fluctuating"
    assert list(opened["tensors"]) == ["node/gpu0"]


def test_each_device_is_evaluated_and_named_separately(tmp_path) -> None:
    scenario = merge_by_time(level(gpu=20.0, gpu1=90.0), sampled({gpu(0): [10.0] * 40}, node="other"))
    _, _, (opened, *_) = evaluate(tmp_path, "low_gpu_utilization", scenario, **SOON)
    assert list(opened["tensors"]) == ["node/gpu0", "other/gpu0"]
    assert opened["message"].startswith("other/gpu0 was at most at 10 %")


def test_one_gpu_has_nothing_to_be_balanced_with(tmp_path) -> None:
    assert evaluate(tmp_path, "load_balancing", level(gpu=50.0), patience=0) == ("not_applicable", "one GPU", [])


def test_a_gpu_without_throttle_reasons_is_undecided(tmp_path) -> None:
    scenario = level(gpu=50.0)
    assert evaluate(tmp_path, "gpu_throttling", scenario)[1] == "the GPU does not report throttle reasons"


def test_the_network_is_evaluated_if_its_utilization_is_known(tmp_path) -> None:
    from leadline.records.metric import Channel

    scenario = list(sampled({CPU: [50.0] * 40, Channel("network", "eth0", "utilization_percent"): [99.0] * 40}))
    _, _, (opened, *_) = evaluate(tmp_path, "hardware_utilization", scenario, **SOON)
    assert opened["message"].startswith("network of node/eth0 99 %, above 95 %")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("cpu_utilization", {"low_threshold": 96.0}),
        ("hardware_utilization", {"low_threshold": 96.0}),
        ("dataloader", {"min_threshold": 300.0}),
        ("cpu_bottleneck", {"threshold": 101.0}),
        ("batch_size", {"window": 0}),
        ("io_bottleneck", {"patience": -1}),
        ("load_balancing", {"threshold": 1.5}),
        ("gpu_memory_increase", {"increase": -1.0}),
        ("step_outlier", {"stddev": 0.0}),
        ("step_outlier", {"mode": "x"}),
        ("straggler", {"factor": 1.0}),
        ("input_bound", {"share": 0.0}),
        ("memory_growth", {"percent": 0.0}),
        ("gpu_throttling", {"share": 1.0}),
        ("throughput_regression", {"factor": 0.5}),
        ("max_initialization_time", {"threshold": 0.0}),
    ],
)
def test_parameters_out_of_bounds_are_rejected(name: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=name):
        find_rule(name)(**parameters)
