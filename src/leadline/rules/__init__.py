"""The rules, and the classes that a custom rule needs."""

from __future__ import annotations

from leadline.reader.window import Window
from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.rule import Rule

__all__ = ["Clear", "Fired", "Needs", "NotApplicable", "Rule", "TensorNeed", "Undecided", "Verdict", "Window"]
