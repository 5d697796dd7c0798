"""The rule profiler_report."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from leadline.config.parameters import parameter_types
from leadline.errors import located
from leadline.reader.interval import Interval
from leadline.records.profiled_rule import FirstFinding, ProfiledRule
from leadline.records.verdict import VerdictTally
from leadline.rules import Clear, Fired, Needs, Rule, Severity, Undecided, Verdict, Window
from leadline.rules.system.batch_size import BatchSize
from leadline.rules.system.cpu_bottleneck import CPUBottleneck
from leadline.rules.system.cpu_utilization import CPUUtilization
from leadline.rules.system.dataloader import Dataloader
from leadline.rules.system.gpu_memory_increase import GPUMemoryIncrease
from leadline.rules.system.hardware_utilization import HardwareUtilization
from leadline.rules.system.io_bottleneck import IOBottleneck
from leadline.rules.system.load_balancing import LoadBalancing
from leadline.rules.system.low_gpu_utilization import LowGPUUtilization
from leadline.rules.system.max_initialization_time import MaxInitializationTime
from leadline.rules.system.operator_time import OperatorTime
from leadline.rules.system.step_outlier import StepOutlier
from leadline.rules.system.system_rule import SCAN_SECONDS

INVOKED: Final[tuple[type[Rule], ...]] = (
    MaxInitializationTime,
    CPUBottleneck,
    IOBottleneck,
    Dataloader,
    LowGPUUtilization,
    BatchSize,
    GPUMemoryIncrease,
    LoadBalancing,
    StepOutlier,
    OperatorTime,
    CPUUtilization,
    HardwareUtilization,
)
"""The rules that it evaluates, causes before their usual effects."""
TELEMETRY: Final = "opt_out_telemetry"


def _fields() -> Iterator[tuple[str, Any, Any]]:
    """Yield the parameters of all rules: ``CPUBottleneck_threshold``, with type and default."""
    for kind in INVOKED:
        defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
        for name, type_ in parameter_types(kind).items():
            yield f"{kind.__name__}_{name}", type_, defaults[name]
    yield TELEMETRY, bool, True


def _parameter_docs() -> str:
    """Return the documentation of the parameters, from the docstrings of the rules."""
    lines = []
    for kind in INVOKED:
        doc = inspect.getdoc(kind) or ""
        arguments = doc[doc.index("\nArgs:\n") : doc.index("\nSource:\n")]
        lines += [f"{kind.__name__}_{name}: {text}" for name, text in re.findall(r"^ {4}(\w+): (.*)$", arguments, re.M)]
    lines.append(f"{TELEMETRY}: Accepted for existing SageMaker scripts; no telemetry is ever sent.")
    return "\n".join(f"        {line}" for line in lines)


def _invoked_rules() -> str:
    """Return the sentence of the docstring that lists the rules."""
    names = f"It evaluates {', '.join(kind.__name__ for kind in INVOKED)}."
    return textwrap.fill(names, 116, initial_indent=" " * 8, subsequent_indent=" " * 8)


if TYPE_CHECKING:
    _Parameters = Rule
else:
    _Parameters = msgspec.defstruct("_Parameters", list(_fields()), bases=(Rule,), frozen=True, kw_only=True)


@dataclass(slots=True)
class _RuleState:
    """The state of one of the rules."""

    rule: Rule
    memory: Any = None
    verdict: Verdict = field(default_factory=lambda: Undecided("not evaluated yet"))
    """The latest verdict."""
    tally: VerdictTally = field(default_factory=VerdictTally)
    moments: int = 0
    """The number of evaluations on which it was clear or fired."""
    fired: int = 0
    episodes: int = 0
    first: FirstFinding = field(default_factory=lambda: FirstFinding())
    """The first finding, with its step."""

    def update(self, window: Window) -> None:
        """Evaluate the rule on the part of a window that it needs."""
        part = _restricted(window, self.rule.needs())
        part.memory = self.memory = self.rule.remember(self.memory, part)
        before, self.verdict = self.verdict, self.rule.evaluate(part)
        self.tally.add(self.verdict)
        self.moments += isinstance(self.verdict, (Clear, Fired))
        if isinstance(self.verdict, Fired):
            self.fired += 1
            self.episodes += not isinstance(before, Fired)
            self.first = self.first or _finding(self.verdict, window)

    def summary(self) -> ProfiledRule:
        """Return the state as plain JSON values."""
        verdict, why = ("fired", "") if self.episodes else self.tally.result(self.rule.least_observations)
        return {
            "rule": self.rule.name,
            "verdict": verdict,
            "times_triggered": self.episodes,
            "moments": self.moments,
            "moments_fired": self.fired,
            "parameters": msgspec.structs.asdict(self.rule),
            "why": why,
            "first": self.first,
        }


class ProfilerReport(_Parameters, frozen=True, kw_only=True):
    severity: ClassVar[Severity] = "advice"
    product: ClassVar[str] = "profiling"

    def check(self) -> None:
        self.invoked()

    def invoked(self) -> list[Rule]:
        """Return the rules with their parameters."""
        return [self._invoked(kind) for kind in INVOKED]

    def _invoked(self, kind: type[Rule]) -> Rule:
        names = parameter_types(kind)
        with located("profiler_report"):
            return kind(**{name: getattr(self, f"{kind.__name__}_{name}") for name in names})

    def needs(self) -> Needs:
        all_needs = [rule.needs() for rule in self.invoked()]
        return Needs(
            scan_seconds=SCAN_SECONDS,
            metrics=tuple(dict.fromkeys(metric for needs in all_needs for metric in needs.metrics)),
            phases=tuple(dict.fromkeys(phase for needs in all_needs for phase in needs.phases)),
            operators=any(needs.operators for needs in all_needs),
            facts=any(needs.facts for needs in all_needs),
        )

    def remember(self, memory: Any, window: Window) -> list[_RuleState]:
        states: list[_RuleState] = memory or [_RuleState(rule) for rule in self.invoked()]
        for state in states:
            state.update(window)
        return states

    def evaluate(self, window: Window) -> Verdict:
        states: list[_RuleState] = window.memory
        product = {"rules": [state.summary() for state in states]}
        fired = [(state.rule.name, state.verdict) for state in states if isinstance(state.verdict, Fired)]
        if fired:
            name, worst = fired[0]
            others = [rule for rule, _ in fired[1:]]
            also = f"; also fired: {', '.join(others)}" if others else ""
            evidence = {rule: verdict.evidence for rule, verdict in fired}
            return replace(worst, message=f"{name}: {worst.message}{also}", evidence=evidence, product=product)
        if any(isinstance(state.verdict, Clear) for state in states):
            return Clear(product)
        return Undecided(f"all of its {len(states)} rules are undecided", product)


_SUMMARY: Final = (
    "Fires when a rule on hardware metrics or step times fires, and keeps the profiling report of the run up to date."
)
ProfilerReport.__doc__ = f"""{_SUMMARY}

    Why it matters:
        A single rule and a single report cover the resource utilization of a training: what was slow, what was idle,
        and which operations ran at that time.
    How it decides:
{_invoked_rules()}
        Each rule is evaluated every {SCAN_SECONDS:g} seconds with its parameters; this one fires when one of them does,
        and reports causes before their usual effects. ``product`` in ``rules/<name>/status.json`` has the state of
        each rule. While the job runs, and once at its end, a separate process writes ``reports/profiling.html`` and
        ``reports/profiling.ipynb`` into the run directory.
    Not a number:
        As in each of its rules.
    Blind spots:
        Those of its rules. It is clear if none fired and at least one was not undecided: on a node without a GPU most
        are undecided, and the report lists their reasons. While a finding is open, another rule that fires does not
        open a second finding.
    Args:
{_parameter_docs()}
    Source:
        SageMaker developer guide, "ProfilerReport".
    """


def _restricted(window: Window, needs: Needs) -> Window:
    """Return a window with only the data that one of the rules needs."""
    assert window.scan is not None
    interval = Interval()
    interval.extend(window.scan.interval, needs)
    return Window(window.step, window.mode, window.time_ns, scan=replace(window.scan, interval=interval))


def _finding(fired: Fired, window: Window) -> FirstFinding:
    return {
        "step": window.step,
        "time_ns": window.time_ns,
        "message": fired.message,
        "suggestion": fired.suggestion,
        "evidence": fired.evidence,
        "devices": list(fired.tensors),
    }
