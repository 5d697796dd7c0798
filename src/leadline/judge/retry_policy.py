"""The retry policy of an action: what the judge must know of an action without constructing it."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.actions.action import Action


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The parameters for repetition, retries and timeout that every action has; plain JSON values."""

    dry_run: bool
    cooldown: float
    """Seconds."""
    is_once: bool
    retries: int
    backoff: float
    """Seconds."""
    timeout: float
    """Seconds."""

    @classmethod
    def of(cls, action: Action) -> RetryPolicy:
        """Return the policy of an action."""
        is_once = action.episodes == "once"
        return cls(action.dry_run, action.cooldown, is_once, action.retries, action.backoff, action.timeout)
