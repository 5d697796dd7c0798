"""How the influence of padding is judged."""

from __future__ import annotations

from typing import Final

from leadline.frameworks.check.outcome import Tested, failed, passed

INVERT: Final = "invert the mask: key_padding_mask is True at padding; Transformers' attention_mask is 1 at tokens"
NO_PADDING: Final = "no input has a mask, or ends in equal values that look like padding"
NOT_CUT: Final = "the padding of this batch cannot be cut off"
OF_ONE_LENGTH: Final = "the model takes sequences of this length only: no column of padding can be cut off"
READS_PADDING: Final = "the model is recurrent and is given no lengths: it reads the padding, too"
_ADVICE: Final = (
    "pass the mask (attention_mask, src_key_padding_mask is True at padding, mask_zero of an Embedding), average over "
    "real positions only, pack recurrent inputs by their lengths, and give ignored positions the label -100"
)


def judge_padding(
    what: str, moved: float, losses: tuple[float, float], tolerance: float, *, judges_loss: bool = True
) -> Tested | None:
    """Return the failure if padding has an influence; None: it has none.

    Args:
        what: What is changed, as the condition of a sentence.
        moved: The change of predictions at real positions, as a share of their standard deviation; infinite: they
            are no longer finite.
        losses: The loss before and after.
        tolerance: The change that is rounding.
    """
    first, second = losses
    change = abs(first - second) / max(abs(first), 1e-6)
    if moved == float("inf"):
        return failed(f"if {what}, predictions are not finite: nothing is left that they may depend on", INVERT)
    if moved > tolerance:
        return failed(
            f"if {what}, predictions at real positions change by {moved:.2g} of their standard deviation",
            _ADVICE,
            change=moved,
            loss_change=change,
        )
    if change > tolerance and judges_loss:
        return failed(
            f"if {what}, the loss changes from {first:.4g} to {second:.4g}: padded positions count in it",
            "ignore padded positions in the loss: the label -100, ignore_index, or a masked mean",
            change=moved,
            loss_change=change,
        )
    return None


def no_influence(share: float, name: str) -> Tested:
    """Return the outcome if the padding, that share of an input, has no influence."""
    return passed(f"predictions and loss do not depend on the padding, {100 * share:.0f} % of {name}")


def columns_cut(count: int) -> str:
    """Return what is changed if columns of padding are cut off."""
    return f"{count} columns of padding are cut off"
