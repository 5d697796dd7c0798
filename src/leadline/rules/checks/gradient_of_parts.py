"""The rule gradient_of_parts."""

from __future__ import annotations

from leadline.rules.checks.check_rule import CheckRule


class GradientOfParts(CheckRule, frozen=True, kw_only=True):
    """Fires when the backward passes of a step do not add up to its gradient.

    Why it matters:
        With accumulation, a zero_grad in the wrong place or a factor that is missing or applied twice changes the
        batch size or the learning rate silently.
    How it decides:
        Fires if a model is called several times with gradients, and not every call enters a loss. If a step has
        several backward passes that reach the optimizer's parameters, its gradient is compared with their sum: fires
        if it is that of the last pass alone; if each pass begins at the mean loss of a micro-batch, undivided, or
        divided by the square of their number; or if micro-batches whose numbers of labels differ by more than 20 %
        count the same.
    Not a number:
        A prediction, loss or gradient that is not finite makes the probe not applicable.
    Blind spots:
        Steps with one backward pass are not applicable. Factors are known only where each pass has one standard loss
        with labels that vary. A compiled training or a sharded one is not copied, and a step that cannot be repeated
        on the copy with the same loss is not tested.
    Source:
        Ours; the accumulation bug of 2024 in several trainers.
    """
