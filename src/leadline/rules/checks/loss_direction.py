"""The rule loss_direction."""

from __future__ import annotations

from leadline.rules.checks.check_rule import CheckRule


class LossDirection(CheckRule, frozen=True, kw_only=True):
    """Fires when lowering the loss moves predictions away from the labels, or the labels belong to other samples.

    Why it matters:
        A sign that is wrong, exchanged arguments and labels out of order train a model that gets worse the better the
        loss.
    How it decides:
        Fires if a loss that is not symmetric gets its gradient through the target. Fires if the target of one of
        PyTorch's losses is, to the bit, the input of a model, made in the step of noise of its shape and of what was
        drawn for another input of that call: its level of noise. On a copy a step along the gradient
        lowers the loss by about 1 %: at least one of PyTorch's losses in the step must not rise by more than a tenth of
        that, or, where the script or its model computes a loss of its own from one label, the predictions must come
        nearer to it, shifted by one position or not. And if the loss with the labels of the samples beside is below 0.7
        times the own one, and below that of six random orders, the labels are shifted.
    Not a number:
        A prediction, loss or gradient that is not finite makes the probe not applicable.
    Blind spots:
        Losses that contain several terms of opposite sign by design are clear as long as one standard loss falls.
        Labels in random order can only be told once the model predicts something. A compiled training or a sharded
        one is not copied, and a step that cannot be repeated on the copy with the same loss is not tested.
    Source:
        Ours.
    """
