"""The rule loss_choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from leadline.rules import Severity
from leadline.rules.losses.given_loss import GivenLoss
from leadline.rules.losses.loss_call_rule import LossCallRule
from leadline.rules.losses.loss_mistakes import Mistake
from leadline.rules.losses.unfitting_losses import find_unfitting_loss


class LossChoice(LossCallRule, frozen=True, kw_only=True):
    """Fires when another loss or metric would suit the labels better: a regression loss on labels of 0 and 1.

    Why it matters:
        A classifier with a squared or absolute error learns, but slowly: the gradient vanishes where the model is
        confidently wrong, and the absolute error is minimal at the more frequent class.
    How it decides:
        Fires if at the first two train steps the labels of a squared, absolute or smooth absolute error contain 0 and
        1 and nothing else, with one number or one 1 for each sample; or if binary cross entropy is given a softmax
        over several classes and labels with one 1; or if an accuracy is computed beside a regression loss whose labels
        are not whole numbers.
    Not a number:
        Labels that contain NaN are not just 0 and 1.
    Blind spots:
        Intended uses fire as well, except the least-squares loss of GANs, whose batches have one label each. Labels of
        losses written by hand are known only where the model ends with an activation. See also ``loss_input``.
    Source:
        Ours; Golik, Doetsch and Ney, "Cross-entropy vs. squared error training" (2013).
    """

    severity: ClassVar[Severity] = "advice"

    def mistakes(self, losses: list[GivenLoss]) -> Iterator[tuple[GivenLoss, Mistake]]:
        for loss in losses:
            mistake = find_unfitting_loss(loss)
            if mistake is not None:
                yield loss, mistake
