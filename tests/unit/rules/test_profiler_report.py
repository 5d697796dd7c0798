"""profiler_report: the same results as each of its rules alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from system_scenarios import system_scenario

from leadline.config.parameters import read_parameters
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.judge.evaluator import Evaluator
from leadline.records.needs import Needs
from leadline.rules.registry import AMAZON, BUILT_IN, find_rule
from leadline.rules.rule import Rule
from leadline.rules.system.profiler_report import INVOKED, ProfilerReport
from leadline.testing.runs import START_NS, RunWriter

SOON = {
    "BatchSize_patience": 3,
    "BatchSize_window": 10,
    "CPUBottleneck_patience": 3,
    "CPUUtilization_patience": 3,
    "CPUUtilization_window": 10,
    "HardwareUtilization_patience": 3,
    "HardwareUtilization_window": 10,
    "LowGPUUtilization_patience": 3,
    "LowGPUUtilization_window": 10,
    "LoadBalancing_patience": 3,
    "GPUMemoryIncrease_patience": 3,
    "GPUMemoryIncrease_window": 5,
    "IOBottleneck_patience": 0,
    "StepOutlier_stddev": 3.0,
    "StepOutlier_n_outliers": 1,
}


def judged(path: str, rules: Sequence[tuple[str, Rule]]) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    progress = Evaluator(path, rules, started_ns=START_NS).advance(is_over=True)
    return progress.rules, progress.events


def every_five_seconds(rule: Rule) -> Rule:
    """The same rule, evaluated at the interval of the others."""
    if rule.needs().scan_seconds == 5.0:
        return rule

    class Slower(type(rule), frozen=True, kw_only=True):  # type: ignore[misc]
        def needs(self) -> Needs:
            return replace(super().needs(), scan_seconds=5.0)

    return Slower(**msgspec.structs.asdict(rule))


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_each_of_its_rules_has_the_same_state_as_alone(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path = RunWriter(tmp_path_factory.mktemp("run") / "run").write_all(system_scenario(seed, seconds=26)).end().path
    whole = ProfilerReport(**SOON)
    alone = [(rule.name, every_five_seconds(rule)) for rule in whole.invoked()]
    states, events = judged(path, alone)
    mine, my_events = judged(path, [("it", whole)])
    assert mine["it"]["error"] is None
    summaries = {state["rule"]: state for state in mine["it"]["product"].get("rules", ())}
    assert {name: state["verdict"] for name, state in states.items()} == {
        name: state["verdict"] for name, state in summaries.items()
    }
    opened = {name: [e for alias, e in events if alias == name and e["event"] == "opened"] for name in states}
    for name, summary in summaries.items():
        assert summary["times_triggered"] == len(opened[name])
        if opened[name]:
            first = opened[name][0]
            assert (summary["first"]["step"], summary["first"]["message"]) == (first["step"], first["message"])
    assert bool([e for _, e in my_events if e["event"] == "opened"]) == any(opened.values())


def test_it_is_found_by_both_names() -> None:
    assert find_rule("ProfilerReport") is find_rule("profiler_report") is ProfilerReport
    assert (AMAZON["ProfilerReport"], ProfilerReport.product) == ("profiler_report", "profiling")


def test_it_evaluates_every_profiler_rule() -> None:
    amazon = {
        "BatchSize",
        "CPUBottleneck",
        "IOBottleneck",
        "GPUMemoryIncrease",
        "LoadBalancing",
        "LowGPUUtilization",
        "MaxInitializationTime",
        "StepOutlier",
        "Dataloader",
        "CPUUtilization",
        "HardwareUtilization",
        "TfOperatorTime",
    }
    assert {find_rule(name) for name in amazon} == set(INVOKED)
    assert all(rule().name in BUILT_IN for rule in INVOKED)


def test_its_parameters_are_those_of_its_rules() -> None:
    rule = ProfilerReport(**read_parameters(ProfilerReport, {"CPUBottleneck_threshold": "7", "StepOutlier_stddev": 3}))
    by_name = {invoked.name: invoked for invoked in rule.invoked()}
    assert by_name["cpu_bottleneck"].threshold == 7.0  # type: ignore[attr-defined]
    assert by_name["step_outlier"].stddev == 3.0  # type: ignore[attr-defined]
    assert by_name["io_bottleneck"] == find_rule("io_bottleneck")()


def test_an_unknown_parameter_gives_an_error_of_one_line_with_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'CPUBottleneck_threshold'"):
        read_parameters(ProfilerReport, {"CpuBottleneck_treshold": 1})
    with pytest.raises(ConfigurationError, match="CPUBottleneck_threshold must be a number >= 0 and <= 100, not 500"):
        ProfilerReport(CPUBottleneck_threshold=500)
    with pytest.raises(ConfigurationError, match="profiler_report: cpu_utilization: low_threshold"):
        ProfilerReport(CPUUtilization_high_threshold=1.0)


def test_opting_out_of_telemetry_changes_nothing() -> None:
    given_ = read_parameters(ProfilerReport, {"opt_out_telemetry": "False"})
    assert ProfilerReport(**given_).invoked() == ProfilerReport().invoked()
