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
from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.system.batch_size import BatchSize
from leadline.rules.system.cpu_bottleneck import CPUBottleneck
from leadline.rules.system.cpu_utilization import CPUUtilization
from leadline.rules.system.dataloader import Dataloader
from leadline.rules.system.device_metrics import SCAN_SECONDS
from leadline.rules.system.gpu_memory_increase import GPUMemoryIncrease
from leadline.rules.system.hardware_utilization import HardwareUtilization
from leadline.rules.system.io_bottleneck import IOBottleneck
from leadline.rules.system.load_balancing import LoadBalancing
from leadline.rules.system.low_gpu_utilization import LowGPUUtilization
from leadline.rules.system.max_initialization_time import MaxInitializationTime
from leadline.rules.system.operator_time import OperatorTime
from leadline.rules.system.step_outlier import StepOutlier

if TYPE_CHECKING:
    from leadline.reader.window import Window

JUDGED: Final[tuple[type[Rule], ...]] = (
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
"""The rules that it invokes: causes before what usually comes of them."""
TELEMETRY: Final = "opt_out_telemetry"


def _fields() -> Iterator[tuple[str, Any, Any]]:
    """A parameter for each of theirs: ``CPUBottleneck_threshold``."""
    for kind in JUDGED:
        defaults = {each.name: each.default for each in msgspec.structs.fields(kind)}
        for name, type_ in parameter_types(kind).items():
            yield f"{kind.__name__}_{name}", type_, defaults[name]
    yield TELEMETRY, bool, True


def _documented() -> str:
    """What the rules say of their parameters, in the words of each."""
    lines = []
    for kind in JUDGED:
        text = inspect.getdoc(kind) or ""
        arguments = text[text.index("\nArgs:\n") : text.index("\nSource:\n")]
        lines += [f"{kind.__name__}_{name}: {said}" for name, said in re.findall(r"^ {4}(\w+): (.*)$", arguments, re.M)]
    lines.append(f"{TELEMETRY}: Taken for the sake of scripts that say it; nothing is ever sent.")
    return "\n".join(f"        {each}" for each in lines)


def _invoked_rules() -> str:
    """Which they are, as the docstring has it."""
    names = f"It invokes {', '.join(kind.__name__ for kind in JUDGED)}."
    return textwrap.fill(names, 116, initial_indent=" " * 8, subsequent_indent=" " * 8)


if TYPE_CHECKING:
    _Parameters = Rule
else:
    _Parameters = msgspec.defstruct("_Parameters", list(_fields()), bases=(Rule,), frozen=True, kw_only=True)


@dataclass(slots=True)
class _Part:
    """One of the rules on its way through the run."""

    rule: Rule
    memory: Any = None
    verdict: Verdict = field(default_factory=lambda: Undecided("no moment was judged yet"))
    """The last that it gave."""
    moments: int = 0
    """How often it could decide."""
    fired: int = 0
    episodes: int = 0
    first: dict[str, Any] = field(default_factory=dict)
    """What it said when it fired first, and at which step."""

    def judge(self, window: Window) -> None:
        """Show it what it needs of a moment."""
        own = _shown(window, self.rule.needs())
        own.memory = self.memory = self.rule.remember(self.memory, own)
        before, self.verdict = self.verdict, self.rule.evaluate(own)
        self.moments += not isinstance(self.verdict, Undecided)
        if isinstance(self.verdict, Fired):
            self.fired += 1
            self.episodes += not isinstance(before, Fired)
            self.first = self.first or _said(self.verdict, window)

    def told(self) -> dict[str, Any]:
        """As plain JSON values."""
        verdict = "fired" if self.episodes else "clear" if self.moments else "undecided"
        return {
            "rule": self.rule.name,
            "verdict": verdict,
            "times_triggered": self.episodes,
            "moments": self.moments,
            "moments_fired": self.fired,
            "parameters": msgspec.structs.asdict(self.rule),
            "why": self.verdict.why if verdict == "undecided" and isinstance(self.verdict, Undecided) else "",
            "first": self.first,
        }


class ProfilerReport(_Parameters, frozen=True, kw_only=True):
    product: ClassVar[str] = "profiling"

    def check(self) -> None:
        self.invoked()

    def invoked(self) -> list[Rule]:
        """The rules, each with its parameters."""
        return [self._invoked(kind) for kind in JUDGED]

    def _invoked(self, kind: type[Rule]) -> Rule:
        names = parameter_types(kind)
        with located("profiler_report"):
            return kind(**{name: getattr(self, f"{kind.__name__}_{name}") for name in names})

    def needs(self) -> Needs:
        every = [rule.needs() for rule in self.invoked()]
        return Needs(
            scan_seconds=SCAN_SECONDS,
            metrics=tuple(dict.fromkeys(each for needs in every for each in needs.metrics)),
            phases=tuple(dict.fromkeys(each for needs in every for each in needs.phases)),
            operators=any(needs.operators for needs in every),
            facts=any(needs.facts for needs in every),
        )

    def remember(self, memory: Any, window: Window) -> list[_Part]:
        parts: list[_Part] = memory or [_Part(rule) for rule in self.invoked()]
        for part in parts:
            part.judge(window)
        return parts

    def evaluate(self, window: Window) -> Verdict:
        parts: list[_Part] = window.memory
        product = {"rules": [part.told() for part in parts]}
        fired = [(part.rule.name, part.verdict) for part in parts if isinstance(part.verdict, Fired)]
        if fired:
            name, worst = fired[0]
            others = [each for each, _ in fired[1:]]
            also = f"; {_also(others)} found something too" if others else ""
            evidence = {each: verdict.evidence for each, verdict in fired}
            return replace(worst, message=f"{name}: {worst.message}{also}", evidence=evidence, product=product)
        if any(isinstance(part.verdict, Clear) for part in parts):
            return Clear(product)
        return Undecided(f"none of its {len(parts)} rules could decide", product)


_SUMMARY: Final = (
    "Fires when a rule of the machine or of the steps does, and keeps the profiling report of the run up to date."
)
ProfilerReport.__doc__ = f"""{_SUMMARY}

    Why it matters:
        One name for all that can be said of how a training uses its machine, and one document that says it: what was
        slow, what stood idle, and which operations ran then.
    How it decides:
{_invoked_rules()}
        Each is asked every {SCAN_SECONDS:g} seconds with its parameters; this one fires when one of them does, and
        tells of the cause before what usually follows from it. ``rules/<name>/status.json`` holds under ``product``
        how each of them stands. While the job runs, and once at its end, ``reports/profiling.html`` and
        ``reports/profiling.ipynb`` are written into the run, by a process of their own.
    Not a number:
        As each of its rules has it.
    Blind spots:
        Those of its rules. It is clear when none fired and one of them could decide: on a node without a GPU most
        cannot, and the report names them with their reasons. While it has fired, another rule that does so too
        opens no second finding.
    Args:
{_documented()}
    Source:
        SageMaker developer guide, "ProfilerReport".
    """


def _also(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _shown(window: Window, needs: Needs) -> Window:
    """What a rule that needs less than all of us sees of a moment."""
    from leadline.reader.window import Window as Shown

    assert window.scan is not None
    interval = Interval()
    interval.extend(window.scan.interval, needs)
    return Shown(window.step, window.mode, window.time_ns, scan=replace(window.scan, interval=interval))


def _said(fired: Fired, window: Window) -> dict[str, Any]:
    return {
        "step": window.step,
        "time_ns": window.time_ns,
        "message": fired.message,
        "suggestion": fired.suggestion,
        "evidence": fired.evidence,
        "devices": list(fired.tensors),
    }
