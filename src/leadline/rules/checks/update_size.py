"""The rule update_size."""

from __future__ import annotations

from leadline.rules.checks.check_rule import CheckRule


class UpdateSize(CheckRule, frozen=True, kw_only=True):
    """Fires when gradients do not belong to the loss, or the update is far too large or too small.

    Why it matters:
        Stale or foreign gradients, clipping before unscaling and a rate that is off by orders of magnitude all look
        like slow learning.
    How it decides:
        On a copy the gradients that the optimizer is about to use are compared with those of the repeated step: fires
        if they are gone; if the cosine is below 0.2 (in one process); if they are the sum with those of the step
        before, or differ by a negative multiple of the weights; or if their norm is below 1e-4 of it. From the third
        train step on, fires if the update changes no parameter, be it that all rates are 0 or that it is rounded away.
        Then the loss
        of the batch is followed along the update, at 0.01 to 1,000 times its length: fires if the update goes up the
        gradient after ten steps on the same batch, too; if it raises the loss by more than 1.5 times and at most a
        tenth of it lowers it, unless no part does because it goes up the gradient (momentum, where the batch is
        learned); or if it changes the loss by less than 1e-3 (1e-6 for optimizers that scale each
        element) and 1,000 times the update is the best.
    Not a number:
        A prediction, loss or gradient that is not finite makes the probe not applicable.
    Blind spots:
        Across ranks gradients are averages and are not compared. A rate that is still warming up is never too low. A
        compiled training or a sharded one is not copied, and a step that cannot be repeated on the copy with the same
        loss is not tested.
    Source:
        Ours.
    """
