"""Contract tests of the rules on hardware metrics and step times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from timelines import CPU, IOWAIT, MEMORY, gpu, merge_by_time, resident, sampled, training

from leadline.records.metric import Channel
from leadline.rules.registry import AMAZON, BUILT_IN, find_rule
from leadline.rules.system.batch_size import BatchSize
from leadline.rules.system.cpu_bottleneck import CPUBottleneck
from leadline.rules.system.cpu_utilization import CPUUtilization
from leadline.rules.system.dataloader import Dataloader
from leadline.rules.system.gpu_memory_increase import GPUMemoryIncrease
from leadline.rules.system.gpu_throttling import GPUThrottling
from leadline.rules.system.hardware_utilization import HardwareUtilization
from leadline.rules.system.input_bound import InputBound
from leadline.rules.system.io_bottleneck import IOBottleneck
from leadline.rules.system.load_balancing import LoadBalancing
from leadline.rules.system.low_gpu_utilization import LowGPUUtilization
from leadline.rules.system.max_initialization_time import MaxInitializationTime
from leadline.rules.system.memory_growth import MemoryGrowth
from leadline.rules.system.operator_time import OperatorTime
from leadline.rules.system.overall_framework_metrics import OverallFrameworkMetrics
from leadline.rules.system.overall_system_usage import OverallSystemUsage
from leadline.rules.system.step_outlier import StepOutlier
from leadline.rules.system.straggler import Straggler
from leadline.rules.system.throughput_regression import ThroughputRegression
from leadline.testing.contracts import RuleContract, TableRuleContract
from leadline.testing.runs import SECOND_NS, START_NS, DetailedProfile, Part

SOON: Mapping[str, Any] = {"patience": 2, "window": 10}
COUNT = 30
"""Number of samples: a quarter of a minute."""
HEALTHY: Mapping[str, float] = {"data": 1.0, "forward": 30.0, "backward": 50.0, "optimizer": 10.0}


def machine(*, count: int = COUNT, **values: float) -> list[Part]:
    """Return constant samples of the given metrics."""
    channels = {
        "cpu": CPU,
        "iowait": IOWAIT,
        "memory": MEMORY,
        "gpu": gpu(0),
        "gpu1": gpu(1),
        "gpu_memory": gpu(0, "memory_used_percent"),
        "heat": gpu(0, "thermal_throttle_percent"),
        "power": gpu(0, "power_throttle_percent"),
    }
    return list(sampled({channels[name]: [value] * count for name, value in values.items()}))


def courses(values: Mapping[Channel, Sequence[float]]) -> list[Part]:
    return list(sampled(values))


def steps(count: int = 140, other_ms: float = 5.0, **changed: float) -> list[Part]:
    """Return the steps of a healthy training with some phases changed, and samples of an idle machine."""
    return merge_by_time(training([{**HEALTHY, **changed}] * count, other_ms=other_ms), machine(cpu=50.0))


def ranks(**changed: float) -> list[Part]:
    """Return steps of three ranks, one of which may be slow; the others wait for it in their collectives."""
    slow = {**HEALTHY, **changed}
    lost = sum(slow.values()) - sum(HEALTHY.values())
    timelines = []
    for rank in range(3):
        phases = {**(slow if rank == 1 else HEALTHY), "collective": 5.0 + (0.0 if rank == 1 else lost)}
        timelines.append(training([phases] * 60, worker=f"rank{rank}-{rank + 1}"))
    return merge_by_time(*timelines)


class TestBatchSize(RuleContract):
    rule = BatchSize
    parameters = SOON
    fires_on = machine(cpu=20.0, gpu=30.0, gpu_memory=10.0)
    silent_on = machine(cpu=20.0, gpu=30.0, gpu_memory=90.0)


class TestCPUBottleneck(RuleContract):
    rule = CPUBottleneck
    parameters: ClassVar = {"patience": 2}
    fires_on = machine(cpu=99.0, gpu=3.0)
    silent_on = machine(cpu=99.0, gpu=90.0)


class TestIOBottleneck(RuleContract):
    rule = IOBottleneck
    parameters: ClassVar = {"patience": 2}
    fires_on = machine(iowait=60.0, gpu=3.0)
    silent_on = machine(iowait=1.0, gpu=3.0)


class TestGPUMemoryIncrease(RuleContract):
    rule = GPUMemoryIncrease
    parameters: ClassVar = {"patience": 2, "window": 5}
    fires_on = courses({gpu(0, "memory_used_percent"): [3.0 * index for index in range(COUNT)]})
    silent_on = machine(gpu_memory=80.0)


class TestLoadBalancing(RuleContract):
    rule = LoadBalancing
    parameters: ClassVar = {"patience": 2}
    fires_on = machine(gpu=95.0, gpu1=5.0)
    silent_on = machine(gpu=95.0, gpu1=92.0)


class TestLowGPUUtilization(RuleContract):
    rule = LowGPUUtilization
    parameters = SOON
    fires_on = machine(gpu=20.0)
    silent_on = machine(gpu=90.0)


class TestOverallSystemUsage(TableRuleContract):
    rule = OverallSystemUsage
    fires_on = machine(cpu=20.0, gpu=30.0)
    silent_on = fires_on


class TestMaxInitializationTime(RuleContract):
    rule = MaxInitializationTime
    parameters: ClassVar = {"threshold": 0.1}
    fires_on = machine(cpu=20.0)
    silent_on = steps(20)


class TestOverallFrameworkMetrics(TableRuleContract):
    rule = OverallFrameworkMetrics
    fires_on = steps()
    silent_on = fires_on


class TestStepOutlier(RuleContract):
    rule = StepOutlier
    parameters: ClassVar = {"n_outliers": 2}
    fires_on = merge_by_time(
        training([{**HEALTHY, "checkpoint": 2000.0 if step % 50 == 49 else 0.0} for step in range(220)], other_ms=2.0),
        machine(cpu=50.0),
    )
    silent_on = steps()


class TestDataloader(RuleContract):
    rule = Dataloader
    fires_on = steps(data=60.0)
    silent_on = steps()


class TestCPUUtilization(RuleContract):
    rule = CPUUtilization
    parameters = SOON
    fires_on = machine(cpu=99.0)
    silent_on = machine(cpu=60.0)


class TestHardwareUtilization(RuleContract):
    rule = HardwareUtilization
    parameters = SOON
    alternatives = ("gpu", "iowait_percent", "network")
    fires_on = machine(cpu=50.0, memory=98.0)
    silent_on = machine(cpu=50.0, memory=60.0, gpu=80.0)


class TestStraggler(RuleContract):
    rule = Straggler
    fires_on = ranks(forward=60.0)
    silent_on = ranks()


class TestInputBound(RuleContract):
    rule = InputBound
    fires_on = steps(data=60.0)
    silent_on = steps()


class TestMemoryGrowth(RuleContract):
    rule = MemoryGrowth
    fires_on = resident([1e9 + 4e6 * index for index in range(110)])
    silent_on = resident([1e9 + 1e6 * (index % 3) for index in range(110)])


class TestThroughputRegression(RuleContract):
    rule = ThroughputRegression
    parameters: ClassVar = {"window": 20}
    fires_on = merge_by_time(training([{**HEALTHY, "forward": 30.0 + step} for step in range(120)]))
    silent_on = steps()


def window(name: str, **lengths_ms: float) -> DetailedProfile:
    """Return thirty calls of each operator, one after the other, in a step of one second."""
    calls = [
        (operator, index * 30.0 + place * 10.0, length)
        for place, (operator, length) in enumerate(lengths_ms.items())
        for index in range(30)
    ]
    number = int(name[-1])
    return DetailedProfile(name, number * 10, START_NS + number * 2 * SECOND_NS, calls, step_ms=1000.0)


class TestOperatorTime(RuleContract):
    rule = OperatorTime
    fires_on = merge_by_time(steps(), [window("w1", conv2d=4.0, relu=1.0), window("w2", conv2d=9.0, relu=1.0)])
    silent_on = merge_by_time(steps(), [window("w1", conv2d=4.0, relu=1.0), window("w2", conv2d=5.0, relu=1.0)])


class TestGPUThrottling(RuleContract):
    rule = GPUThrottling
    alternatives = ("gpu",)
    fires_on = machine(count=60, gpu=90.0, heat=100.0, power=0.0)
    silent_on = machine(count=60, gpu=90.0, heat=0.0, power=0.0)


def test_rules_are_found_by_their_sagemaker_names() -> None:
    names = (
        "BatchSize",
        "CPUBottleneck",
        "GPUMemoryIncrease",
        "IOBottleneck",
        "LoadBalancing",
        "LowGPUUtilization",
        "OverallSystemUsage",
        "MaxInitializationTime",
        "OverallFrameworkMetrics",
        "StepOutlier",
        "Dataloader",
        "CPUUtilization",
        "HardwareUtilization",
    )
    assert {name: find_rule(name).__name__ for name in names} == {name: name for name in names}
    assert {AMAZON[name] for name in names} <= set(BUILT_IN)
