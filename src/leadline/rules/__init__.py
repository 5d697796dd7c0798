"""What rules are made of: the built-in ones import it from here, as custom rules do."""

from __future__ import annotations

from leadline.analysis.advice import Advice
from leadline.reader.window import TensorReading, TensorVector, Window
from leadline.records.formatting import exact, significant
from leadline.records.names import Severity
from leadline.records.needs import MetricNeed, Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.bounds import (
    Factor,
    NonNegativeFloat,
    NonNegativeInt,
    Percent,
    PositiveFloat,
    PositiveInt,
    Share,
)
from leadline.rules.messages import and_more, clear_if_complete, fired, suspected, too_few
from leadline.rules.rule import Rule
from leadline.rules.selection import check_pattern, check_selection, select
from leadline.rules.tensor_rule import TensorRule

__all__ = [
    "Advice",
    "Clear",
    "Factor",
    "Fired",
    "MetricNeed",
    "Needs",
    "NonNegativeFloat",
    "NonNegativeInt",
    "NotApplicable",
    "Percent",
    "PositiveFloat",
    "PositiveInt",
    "Rule",
    "Severity",
    "Share",
    "TensorNeed",
    "TensorReading",
    "TensorRule",
    "TensorVector",
    "Undecided",
    "Verdict",
    "Window",
    "and_more",
    "check_pattern",
    "check_selection",
    "clear_if_complete",
    "exact",
    "fired",
    "select",
    "significant",
    "suspected",
    "too_few",
]
