"""Findings: episodes during which a rule fired."""

from __future__ import annotations

from dataclasses import dataclass, field

from leadline.records.json_object import JsonObject

MAX_SHOWN_TENSORS = 20
"""Maximum number of tensors of a finding that are shown or sent; further ones are only counted."""
MAX_NAMES = 100_000
"""All findings of a rule name so many tensors at most; further findings name those that are shown."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One episode, from the step at which it opened until it closed."""

    id: int
    """Counts from 1 within the rule."""
    rule: str
    """The rule's name in this run (its alias)."""
    step: int
    """The train step at which it opened; in other modes the train step that had been finished."""
    last_step: int
    """The last train step at which the rule fired in this episode."""
    is_open: bool
    time_ns: int
    """Wall clock of the step at which it opened."""
    message: str
    suggestion: str = ""
    tensors: tuple[str, ...] = ()
    """The affected tensors, the worst first."""
    tensor_count: int = 0
    """Number of affected tensors; there are fewer names where the rule's findings have reached ``MAX_NAMES``."""
    worker: str | None = None
    evidence: JsonObject = field(default_factory=dict)
    count: int = 1
    """Number of evaluated steps during which the rule fired."""
    global_step: int = -1
    """The global step at which it opened, as in the raw tables."""
    last_global_step: int = -1
    since_step: int | None = None
    """The train step at which it began, if that is before ``step``."""
    training: int = 1
    """The number of the training that it is about, among those of its worker."""
    has_passed: bool = False
    """Whether it closed because what it says holds no longer, and is no problem any more; see ``Rule.passes``."""

    @property
    def first_step(self) -> int:
        """The train step at which it began."""
        return self.step if self.since_step is None else min(self.step, self.since_step)
