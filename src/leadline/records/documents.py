"""The documents of a run that workers, agents and the judge write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from leadline.records.decoding import Document
from leadline.records.gpu_description import GpuDescription
from leadline.records.incarnations import WorkerStart
from leadline.records.json_object import JsonObject
from leadline.records.names import Severity

MAX_TRAININGS: Final = 10_000
"""The number of trainings of a process whose first steps are known."""
MAX_CHECKPOINTS: Final = 100
"""The number of checkpoints of a process that are known, the latest ones."""


@dataclass(frozen=True, slots=True)
class WatchedModel(Document):
    """A model that a worker trains."""

    name: str = "a model"
    parameters: int = 0
    elements: int = 0
    """Of all its parameters, also of those that its optimizer does not update; 0: not known."""
    trainable: int = 0
    """Those that require a gradient."""


@dataclass(frozen=True, slots=True)
class SampledItem(Document):
    """A capture item that was captured less often than requested, to stay within the overhead budget."""

    collection: str | None = None
    regexes: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    raw: bool = False
    mode: str = "train"
    sources: tuple[str, ...] = ()
    """The sources of the requests: ``preset``, ``rule:<name>``."""
    requested_every: int | None = None
    """The requested interval in steps of the mode; None: in seconds."""
    requested_seconds: float | None = None
    requests: int = 0
    captures: int = 0
    steps: int = 0
    """The steps of the mode."""
    longest_gap: int = 0
    """The most steps between two captures."""


@dataclass(frozen=True, slots=True)
class CaptureCost(Document):
    """What the captures of some items took of the training thread."""

    collections: tuple[str, ...] = ()
    """Of the items; those that are selected by name alone have none."""
    statistics: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """The sources of the requests: ``preset``, ``rule:<name>``, ``option``."""
    mode: str = "train"
    captures: int = 0
    own_ns: int = 0


@dataclass(frozen=True, slots=True)
class DroppedData(Document):
    """Data of a worker that could not be written."""

    since_step: int | None = None
    reason: str = "unknown reason"
    rows: int = 0
    tensors: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class DisabledCapture(Document):
    """The failure of ours that ended the capture in a worker, whose training went on."""

    step: int | None = None
    error: str = "unknown error"


@dataclass(frozen=True, slots=True)
class OverheadAtStart(Document):
    """The first steps of a process: their number, the time that Leadline took in its training thread, and all of it."""

    steps: int = 0
    own_ns: int = 0
    """Also to compile capture programs."""
    loop_ns: int = 0


@dataclass(frozen=True, slots=True)
class SavedCheckpoint(Document):
    """A checkpoint that a trainer has saved."""

    step: int = -1
    """The train step after which the weights were saved; -1: before the first one."""
    path: str = ""


@dataclass(frozen=True, slots=True)
class WorkerDocument(Document):
    """``workers/<worker>.json``: the state of one worker."""

    worker: str = ""
    node: str | None = None
    pid: int | None = None
    parent_pid: int | None = None
    """That of the process that started it, such as torchrun."""
    started_ns: int = 0
    framework: str = ""
    models: tuple[WatchedModel, ...] = ()
    optimizers: tuple[str, ...] = ()
    watching: str = ""
    """The capture plan in a few words."""
    steps: dict[str, int] = field(default_factory=dict)
    """The number of finished steps by mode."""
    step: int = -1
    """The last finished global step."""
    trainings: tuple[int, ...] = ()
    """The train steps at which trainings begin that follow the first one, fewer than ``MAX_TRAININGS``."""
    losses: dict[str, float | str | None] = field(default_factory=dict)
    """The latest value of each loss; NaN and infinity by name."""
    time_ns: int = 0
    own_ns: int = 0
    """The time of the training thread that Leadline took."""
    compile_ns: int = 0
    """The time in which programs that capture were compiled, beside ``own_ns``."""
    loop_ns: int = 0
    start: OverheadAtStart | None = None
    """The same of the first steps, which capture much that is captured once; None: they are not over."""
    sampled: tuple[SampledItem, ...] = ()
    costs: tuple[CaptureCost, ...] = ()
    """A part of ``own_ns``; empty without a budget."""
    off: DisabledCapture | None = None
    error: str = ""
    """The exception that ended the process, in one line; empty: none is known."""
    notes: tuple[str, ...] = ()
    facts: JsonObject = field(default_factory=dict)
    profiles: dict[str, str] = field(default_factory=dict)
    """The outcome of each profile window."""
    hyperparameters: JsonObject = field(default_factory=dict)
    """Of a booster, or as the script has told a tracker; the next two are those of a booster."""
    features: tuple[str, ...] = ()
    evaluated_on: str | None = None
    state: str = ""
    """``running`` or ``ended``."""
    ended_ns: int | None = None
    rows: int = 0
    bytes: int = 0
    lost: DroppedData | None = None
    starts: tuple[WorkerStart, ...] = ()
    """Of a worker of a resumed run: where each incarnation begins in its streams."""
    counted_before: int | None = None
    """The number of steps that the optimizer had counted before train step 0; None: it does not count."""
    planned_steps: int | None = None
    """The number of train steps there will be when the trainer has carried out its plan; None: it is not known."""
    ends_own_loop: bool = False
    """Whether a stop ends the loop of a trainer, by its own means, so that the script goes on after it."""
    checkpoints: tuple[SavedCheckpoint, ...] = ()
    """What the trainer has told that it saved, the latest ones."""

    @property
    def train_step(self) -> int:
        """The last finished train step; of a worker that has not trained, its last step."""
        return self.steps["train"] - 1 if "train" in self.steps else self.step


@dataclass(frozen=True, slots=True)
class PlannedAction(Document):
    """An action in a manifest."""

    action: str = ""
    parameters: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ManifestDocument(Document):
    """What the agent and notebooks read of ``manifest.json``; ``Manifest`` is the complete record."""

    name: str = ""
    preset: str = "standard"
    interval_ms: int = 500
    folder: str = ""
    rules: tuple[JsonObject, ...] = ()
    actions: tuple[PlannedAction, ...] = ()
    settings: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DroppedSamples(Document):
    """Samples of system metrics that could not be written."""

    samples: int = 0
    since_ns: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeDocument(Document):
    """``nodes/<node>.json``: one machine of the job."""

    node: str = ""
    agent_pid: int | None = None
    started_ns: int = 0
    cpu_count: int | None = None
    memory_bytes: int | None = None
    gpus: tuple[GpuDescription, ...] = ()
    """The descriptions of the sampled GPUs."""
    absent: dict[str, str] = field(default_factory=dict)
    """The metrics that cannot be read, with the reasons."""
    lost: DroppedSamples | None = None
    gone: tuple[str, ...] = ()
    """Workers whose process is gone though they never reported their end."""
    state: str = ""
    """``running`` or ``ended``."""
    exit_status: int | None = None
    """With which the agent has ended; None: it has not, or that is unknown."""
    incarnation: int = 0
    """The last one that the node took part in."""
    processor_seconds: float | None = None
    """What the agent took; None: it has not ended."""

    @property
    def gpu_names(self) -> list[str]:
        return [str(gpu.get("name") or "GPU") for gpu in self.gpus]


@dataclass(frozen=True, slots=True)
class Transition(Document):
    """A change of the job's status."""

    status: str = ""
    time_ns: int = 0


@dataclass(frozen=True, slots=True)
class RunStatus(Document):
    """``status.json``: the job's status and its transitions; the default if the document does not exist yet."""

    status: str = "Starting"
    transitions: tuple[Transition, ...] = ()
    stopped_by: str | None = None
    """``rule:<name>``, ``user`` …"""
    exit_status: int | None = None
    agent_pid: int | None = None
    job_pid: int | None = None
    node: str | None = None
    """The node of the agent that writes this document."""
    ended_ns: int | None = None
    error: str = ""
    """The exception that ended a job before its first step: ``ModuleNotFoundError: …``; empty: none is known."""


@dataclass(frozen=True, slots=True)
class Announcement(Document):
    """A line that the agent shows in the terminal: a new finding, or the outcome of an action."""

    id: int = 0
    step: int | None = None
    rule: str = "?"
    message: str = ""
    action: str | None = None
    """What an action does about the finding."""
    kind: str | None = None
    """``action`` or ``failure``: the outcome of an action; None: a finding."""
    explains: tuple[str, ...] = ()
    """The rules announced before whose findings follow from this one."""


@dataclass(frozen=True, slots=True)
class SummarizedRule(Document):
    """A rule in the rule summary."""

    name: str = ""
    rule: str = ""
    status: str = ""
    verdict: str | None = None
    why: str = ""
    sampling: str = ""
    """How often its data was captured, if less often than requested: ``sampled every 200 steps``."""
    severity: Severity = "warning"
    findings: int = 0
    step: int | None = None
    """The step of the first finding; its message and suggestion follow."""
    since_step: int | None = None
    """The step at which it began, where the rule knows one before ``step``."""
    last_step: int | None = None
    """The last step at which the rule fired in the first finding, if that has closed."""
    has_passed: bool = False
    """Whether all of its findings are over, and no problem any more."""
    is_open: bool = False
    """Whether the first finding is open."""
    message: str | None = None
    suggestion: str | None = None
    explained_by: str | None = None
    """The rule whose finding is the cause."""


@dataclass(frozen=True, slots=True)
class PhaseShare(Document):
    """A phase of the time breakdown."""

    phase: str = ""
    seconds: float = 0.0
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class TimeSummary(Document):
    """The largest phases and the bottleneck of a run."""

    phases: tuple[PhaseShare, ...] = ()
    bound: dict[str, str] | None = None
    """Kind, phase, message and what to try; None: nothing bounds the step time."""
    overload: dict[str, str] | None = None
    """Message and what to try; None: the training's thread did not wait for a processor, or it was not measured."""


@dataclass(frozen=True, slots=True)
class RuleSummary(Document):
    """``rules/summary.json``: all rules, those that fired first, causes before their effects."""

    complete: bool = False
    delivering: tuple[str, ...] = ()
    """The actions with pending deliveries."""
    judged_step: int = -1
    updated_ns: int = 0
    announcements: tuple[Announcement, ...] = ()
    time: TimeSummary | None = None
    rules: tuple[SummarizedRule, ...] = ()
    remarks: tuple[str, ...] = ()
    """At the end of a run: what is worth knowing, but no problem."""
    possible_causes: tuple[str, ...] = ()
    """Those of the remarks that are facts about the program, and may be the cause of a finding."""
    best_evaluation: str = ""
    """At the end of a run with several evaluations: the best of them."""
    processor_seconds: float | None = None
    """At the end of a run: what the judge that followed it took, with its rule workers and actions."""


@dataclass(frozen=True, slots=True)
class RuleDocument(Document):
    """``rules/<rule>/status.json``: the state of one rule."""

    name: str = ""
    rule: str = ""
    parameters: JsonObject = field(default_factory=dict)
    status: str = ""
    verdict: str | None = None
    why: str = ""
    sampling: str = ""
    """As in ``SummarizedRule``."""
    severity: Severity = "warning"
    judged_steps: int | None = None
    judged_step: int = -1
    """The last step that it has judged; -1: none."""
    findings: int = 0
    updated_ns: int = 0
    product: JsonObject = field(default_factory=dict)
    """What a rule that never fires has collected."""


@dataclass(frozen=True, slots=True)
class LoggedAction(Document):
    """A line of ``actions.jsonl``: a notification, an action, and what became of it."""

    rule: str = ""
    action: str = ""
    outcome: str = ""
    state: str = "done"
    """``asked`` until it is ``done``, ``failed``, ``given up``, ``dry run`` or ``skipped``."""
    time_ns: int | None = None
    step: int | None = None
    request: str | None = None
    """The id of the control request that the action made."""
    finding: int | None = None
    """The step of the finding."""
    notice: str = ""
    """The id of the notification."""
    attempts: int = 1
    entry: int = 0
    """The index among the actions of that name."""

    @property
    def has_failed(self) -> bool:
        return self.state in ("failed", "given up")

    @property
    def is_awaiting_answer(self) -> bool:
        return self.state == "asked" and self.request is not None

    @property
    def is_final(self) -> bool:
        return self.has_failed or self.state in ("done", "dry run", "skipped")
