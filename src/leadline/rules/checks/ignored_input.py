"""The rule ignored_input."""

from __future__ import annotations

from leadline.rules.checks.check_rule import CheckRule


class IgnoredInput(CheckRule, frozen=True, kw_only=True):
    """Fires when a model that has learned its batch predicts without its input.

    Why it matters:
        A constant index, equal inputs or a mask that hides everything leave only the frequencies of the labels to be
        learned.
    How it decides:
        On the copy that has learned its batch (see ``unlearnable_batch``) each sample gets the input of one with
        another label: fires if that gives back less than 2 % of what was learned.
    Not a number:
        A prediction, loss or gradient that is not finite makes the probe not applicable.
    Blind spots:
        Not applicable where the loss is computed from the input itself, has no labels that differ from sample to
        sample, or compares samples with each other, so that it rises if only labels change places. A compiled training
        or a sharded one is not copied, and a step that cannot be repeated on the copy with the same loss is not tested.
    Source:
        A. Karpathy, A Recipe for Training Neural Networks: "input-independent baseline".
    """
