"""What can be done about a finding."""

from leadline.actions.action import Action, ActionContext, Outcome, RejectedError, RetryLaterError

__all__ = ["Action", "ActionContext", "Outcome", "RejectedError", "RetryLaterError"]
