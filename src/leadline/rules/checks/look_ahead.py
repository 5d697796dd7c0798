"""The rule look_ahead."""

from __future__ import annotations

from leadline.rules.checks.check_rule import CheckRule


class LookAhead(CheckRule, frozen=True, kw_only=True):
    """Fires when a prediction of a sequence sees the label that it predicts, or nothing but its own position.

    Why it matters:
        A missing or inverted causal mask gives a loss that falls far too fast and a model that cannot generate; a
        mask that hides everything gives one that predicts from a single token.
    How it decides:
        Applies if at least 95 % of the labels equal the input one position later (or at the same position, or two
        later); whether a model shifts labels that it is given is read from the gradient of the loss. On a copy in
        evaluation mode the inputs at some positions are changed: no prediction before the label's position may change
        by more than 1e-4 of the standard deviation (0.1 in reduced precision); the last one must change if all
        earlier inputs do. Labels that are the inputs themselves, or are shifted twice, are named.
    Not a number:
        A prediction, loss or gradient that is not finite makes the probe not applicable.
    Blind spots:
        Masked language models, translation and other sequences whose labels are not their own inputs are not
        applicable. Flattened predictions are not compared. A compiled training or a sharded one is not copied, and a
        step that cannot be repeated on the copy with the same loss is not tested.
    Source:
        Ours; the public threads on shifted labels and masks.
    """
