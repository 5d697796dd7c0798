"""Actions of a rule, in smdebug's interface."""

from leadline.compat.smdebug.rules.action.action import Actions

__all__ = ["Actions"]
