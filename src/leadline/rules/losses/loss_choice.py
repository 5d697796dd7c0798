"""The rule loss_choice."""

from __future__ import annotations

from typing import Any, ClassVar

from leadline.records.loss_facts import FACT_STEPS
from leadline.rules import Needs, NotApplicable, Rule, Severity, Verdict, Window
from leadline.rules.losses.given_loss import NEEDS, GivenLoss, given_losses
from leadline.rules.losses.loss_input import remember_mistakes, verdict_on
from leadline.rules.losses.loss_mistakes import Mistake
from leadline.rules.losses.unfitting_losses import find_unfitting_loss


class LossChoice(Rule, frozen=True, kw_only=True):
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

    @property
    def least_observations(self) -> int:
        return FACT_STEPS

    def needs(self) -> Needs:
        return NEEDS

    def remember(self, memory: Any, window: Window) -> dict[tuple[str, str], tuple[str, int]]:
        """Keep the latest finding about each loss call, and at how many steps running it was made."""
        return remember_mistakes(memory, {key: mistake for key, (_, mistake) in _unfitting(window).items()})

    def evaluate(self, window: Window) -> Verdict:
        if not given_losses(window):
            return NotApplicable("no loss whose input the graph shows")
        return verdict_on(list(_unfitting(window).values()), window)


def _unfitting(window: Window) -> dict[tuple[str, str], tuple[GivenLoss, Mistake]]:
    return {
        (loss.worker, loss.name): (loss, mistake)
        for loss in given_losses(window)
        if (mistake := find_unfitting_loss(loss)) is not None
    }
