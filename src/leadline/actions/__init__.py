"""Actions that follow findings and changes of status."""

from leadline.actions.action import Action, ActionContext, Outcome, RejectedError, RetryLaterError

__all__ = ["Action", "ActionContext", "Outcome", "RejectedError", "RetryLaterError"]
