"""Contract tests of profiler_report."""

from __future__ import annotations

from typing import ClassVar

from test_system_rules_contract import machine, steps

from leadline.rules.system.profiler_report import ProfilerReport
from leadline.testing.contracts import RuleContract


class TestProfilerReport(RuleContract):
    rule = ProfilerReport
    parameters: ClassVar = {"LowGPUUtilization_patience": 2, "LowGPUUtilization_window": 10}
    fires_on = machine(gpu=20.0)
    silent_on = steps()
