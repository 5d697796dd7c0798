"""What can be done about a finding."""

from leadline.actions.action import Action, LaterError, Occasion, Outcome, RefusedError

__all__ = ["Action", "LaterError", "Occasion", "Outcome", "RefusedError"]
