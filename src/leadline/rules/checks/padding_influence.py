"""The rule padding_influence."""

from __future__ import annotations

from leadline.rules.checks.check_rule import CheckRule


class PaddingInfluence(CheckRule, frozen=True, kw_only=True):
    """Fires when padding changes predictions at real positions, or the loss.

    Why it matters:
        A mean over padded positions, a mask that is inverted or not passed, and padding that counts in the loss make
        results depend on the length of the longest sample of a batch.
    How it decides:
        Applies if a model is given a mask whose ends of rows are masked, or tokens whose rows end in one value at
        different lengths. On a copy in evaluation mode the longer samples are replaced by shorter ones, and the
        columns that are padding in all of them are cut off; padded values that are no tokens are replaced, too.
        Predictions at real positions and the loss must not change by more than 1e-4 (0.1 in reduced precision).
        Predictions that depend on masked positions only are called inverted; lengths that are those of other rows are
        named.
    Not a number:
        A prediction, loss or gradient that is not finite makes the probe not applicable.
    Blind spots:
        A batch without padding is not applicable, nor is a model that takes sequences of one length only, nor a
        recurrent model that is given neither a mask nor lengths. Padding that is an ordinary value elsewhere in the
        batch is not recognized. With padding on the left the loss is not compared: the label of the first real token
        belongs to a padded position. A compiled training or a sharded one is not copied, and a step that cannot be
        repeated on the copy with the same loss is not tested.
    Source:
        Ours; the public threads on masks.
    """
