"""The kinds of verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from leadline.records.json_object import JsonObject


@dataclass(frozen=True, slots=True)
class Clear:
    """The rule was evaluated and did not fire."""

    product: JsonObject = field(default_factory=dict, hash=False)
    """Results that the rule has collected beside its verdict; plain JSON values, the last of a run are kept."""


@dataclass(frozen=True, slots=True)
class Fired:
    """The rule fired."""

    message: str
    """The observation with numbers and names, in one line."""
    tensors: tuple[str, ...] = ()
    """Names of the affected tensors (or devices), worst first."""
    evidence: JsonObject = field(default_factory=dict)
    """The numbers behind the message; plain JSON values."""
    suggestion: str = ""
    """The first thing to try, then the usual cause; shown after ``try:``."""
    worker: str | None = None
    """The affected worker; None: all, or unknown."""
    since_step: int | None = None
    """The train step at which it began, if a rule needs several captures to be sure; None: that of the window."""
    product: JsonObject = field(default_factory=dict)
    """As in ``Clear``."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """The rule cannot decide."""

    why: str
    """The missing data and how to get them, or how much was seen of how much is needed, in one line."""
    product: JsonObject = field(default_factory=dict, hash=False)
    """As in ``Clear``."""
    stage: Literal["no data", "too few", "suspected"] = "no data"
    """``no data``: the window has nothing that the rule could evaluate. ``too few``: it counts as an observation, and
    more are needed. ``suspected``: what was seen points to a finding, but not for long enough; the rule is not clear
    then, whatever it saw before."""


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """There is nothing in this run that the rule could evaluate: one process, no GPU."""

    why: str
    """What the run does not have, in one line."""
    product: JsonObject = field(default_factory=dict, hash=False)
    """As in ``Clear``."""


Verdict = Clear | Fired | Undecided | NotApplicable


@dataclass(slots=True)
class VerdictTally:
    """What the verdicts of a rule on the windows of a run amount to."""

    clear: int = 0
    """The number of windows on which the rule was clear."""
    observations: int = 0
    """The number of windows that had the rule's data."""
    is_suspected: bool = False
    """Whether the latest observation points to a finding, but not for long enough."""
    why: str = ""
    """Why the rule was undecided last; what it has observed counts before what it lacks."""
    why_not_applicable: str = ""

    def add(self, verdict: Verdict) -> None:
        """Add the verdict on a window."""
        match verdict:
            case NotApplicable(why=why):
                self.why_not_applicable = why
                return
            case Undecided(why=why, stage="no data"):
                self.why = self.why if self.observations else why
                return
            case Undecided(why=why, stage=stage):
                self.why, self.is_suspected = why, stage == "suspected"
            case Clear():
                self.clear += 1
                self.is_suspected = False
        self.observations += 1
        self.why_not_applicable = ""

    def result(self, least_observations: int, unseen: str = "no data") -> tuple[str, str]:
        """Return the verdict without a finding (``clear``, ``undecided`` or ``not_applicable``), and the reason.

        Args:
            unseen: The reason if there was no window.
        """
        if self.why_not_applicable:
            return "not_applicable", self.why_not_applicable
        if self.is_suspected or not self.clear:
            return "undecided", self.why or unseen
        if self.observations < least_observations:
            return "undecided", f"{self.observations:,} of the {least_observations:,} captures needed"
        return "clear", ""
