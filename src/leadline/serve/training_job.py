"""The records of training jobs, as the state file and the job folders contain them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from leadline.records.decoding import StrictDocument
from leadline.records.json_object import JsonObject

PENDING: Final = "Pending"
"""The secondary status of a job that waits for a slot."""
ENDED: Final = frozenset({"Completed", "Failed", "Stopped"})
RULE_ENDED: Final = frozenset({"NoIssuesFound", "IssuesFound", "Error", "Stopped"})


def seconds(time_ns: int) -> float:
    """Return a time as AWS writes it: seconds since 1970."""
    return time_ns / 1e9


@dataclass(frozen=True, slots=True)
class StatusTransition(StrictDocument):
    """The start of a phase of a job."""

    status: str
    """A secondary status of AWS: ``Downloading``, ``Training`` …"""
    time_ns: int
    message: str


@dataclass(frozen=True, slots=True)
class JobProgress(StrictDocument):
    """``progress.json`` in the job folder: how far the job process is; it exists from the start of the process."""

    transitions: tuple[StatusTransition, ...]
    status: str = "InProgress"
    """InProgress, or how the job has ended."""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class CustomRuleResult(StrictDocument):
    """The result of a custom rule, which its process writes into the job folder."""

    status: str
    details: str


def condition_met(kind: str, step: int | None) -> str:
    """Return the details of a rule that has found something, in the words of AWS."""
    where = f" at step {step}" if step is not None and step >= 0 else ""
    return f"RuleEvaluationConditionMet: Evaluation of the rule {kind}{where} resulted in the condition being met\n"


@dataclass(frozen=True, slots=True)
class RuleEvaluation(StrictDocument):
    """A rule of a job; AWS evaluates each in a processing job of its own."""

    name: str
    """The ``RuleConfigurationName``."""
    kind: str
    """The class of the rule, as the request names it."""
    processing_job: str
    is_profiler_rule: bool
    is_custom: bool
    modified_ns: int
    status: str = "InProgress"
    details: str = ""
    run_name: str = ""
    """Its name in the run where that is another one: a rule that is evaluated again after it was stopped."""

    @property
    def name_in_run(self) -> str:
        """The name of the rule in the run."""
        return self.run_name or self.name


@dataclass(frozen=True, slots=True)
class TrainingJob(StrictDocument):
    """A training job."""

    name: str
    request: JsonObject
    """What CreateTrainingJob was given."""
    transitions: tuple[StatusTransition, ...]
    """The first one is the creation."""
    modified_ns: int
    status: str = "InProgress"
    failure: str = ""
    rules: tuple[RuleEvaluation, ...] = ()
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def created_ns(self) -> int:
        return self.transitions[0].time_ns

    @property
    def secondary_status(self) -> str:
        return self.transitions[-1].status

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    @property
    def is_queued(self) -> bool:
        return not self.has_ended and self.secondary_status == PENDING

    def time_ns(self, *statuses: str) -> int | None:
        """Return when the job first reached one of these secondary statuses; None: it has not."""
        return next((transition.time_ns for transition in self.transitions if transition.status in statuses), None)
