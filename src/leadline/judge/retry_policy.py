"""How an action wants to be done: what the judge must know of it without making one."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.actions.action import Action


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The parameters that every action has, and what its class says; plain JSON values."""

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
        """Those of an action."""
        is_once = action.episodes == "once"
        return cls(action.dry_run, action.cooldown, is_once, action.retries, action.backoff, action.timeout)
