"""The rule unlearnable_batch."""

from __future__ import annotations

from leadline.rules.checks.check_rule import CheckRule


class UnlearnableBatch(CheckRule, frozen=True, kw_only=True):
    """Fires when the model cannot learn a single batch.

    Why it matters:
        A model that cannot overfit one batch has a defect that no amount of data cures.
    How it decides:
        On a copy at most 100 steps are made on the one batch, with the script's optimizer and with Adam at 0.01,
        0.001 and 0.0001, as far as half of the time left allows; if it does not, with Adam at 0.001 alone, and what is
        not learned then is not judged. Within the first 100 train steps, fires if none of
        the three lowers the loss by 2 %, or below 0.97 times that of the best constant prediction, which is known for
        cross entropy and squared error. Fires if one of them halves the loss and the script's optimizer ends above
        twice the first loss without ever lowering it, or changes it by less than 1e-5. Before all that, fires if the
        model ends with tanh, sigmoid, softmax, ReLU or softplus, and more than 5 % of the targets of a squared,
        absolute, Huber or smooth L1 error are outside of its range.
    Not a number:
        A prediction, loss or gradient that is not finite makes the probe not applicable.
    Blind spots:
        A loss that is negative or near 0 at the start is not judged. Fewer than 15 steps decide nothing. A compiled
        training or a sharded one is not copied, and a step that cannot be repeated on the copy with the same loss is
        not tested.
    Source:
        A. Karpathy, A Recipe for Training Neural Networks: "overfit one batch".
    """
