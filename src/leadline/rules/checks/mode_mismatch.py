"""The rule mode_mismatch."""

from __future__ import annotations

from leadline.rules.checks.check_rule import CheckRule


class ModeMismatch(CheckRule, frozen=True, kw_only=True):
    """Fires when the model behaves otherwise than its mode says.

    Why it matters:
        Dropout that is active in evaluation, or off in training, and running statistics that never follow the data
        make validation disagree with training.
    How it decides:
        Fires if a dropout drops at least 75 %; if a batch norm's momentum is above 0.5 or at most 0.001; if the model
        of the train step was in evaluation mode and has dropout or batch norm; if F.dropout is called with
        training=True in evaluation mode, or F.scaled_dot_product_attention with a dropout_p above 0; or if a module of
        the script without parameters, which in training returns what it returns in evaluation times a factor, or 0,
        returns less or more by 15 % on average of 16 calls.
    Not a number:
        A prediction, loss or gradient that is not finite makes the probe not applicable.
    Blind spots:
        Noise that is drawn by other functions is taken as intended. A training on a GPU, a compiled or a sharded one
        is not copied, and a step that cannot be repeated on the copy with the same loss is not tested.
    Source:
        Ours.
    """
