"""How predictions of positions are judged by the tokens that change them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leadline.frameworks.check.outcome import Tested, failed, passed
from leadline.records.json_object import JsonObject

MIN_LENGTH: Final = 4
MIN_SHIFTED: Final = 0.95
"""Share of the labels that must equal the input at another position for a sequence to be one that predicts itself."""
SHIFTS: Final = (1, 0, 2)
"""Positions by which labels are looked for ahead of the tokens, the usual one first."""
NO_SEQUENCES: Final = "the labels are not the inputs of later positions"
NO_POSITIONS: Final = "no prediction has one element for each position"
SHOWN: Final = 64
_ADVICE_AHEAD: Final = (
    "mask later positions (is_causal, a causal mask of the right sign, padding on the left of convolutions, no "
    "bidirectional layer)"
)


def changed_positions(length: int) -> list[int]:
    """Return the positions whose tokens are changed, each alone."""
    return list(dict.fromkeys((length // 4, length // 2, length - 2)))


def judge_positions(
    changes: Sequence[tuple[int, Sequence[float]]], shift: int, tolerance: float, reach: int | None
) -> Tested:
    """Judge which predictions change with the token at a position.

    Args:
        changes: Positions whose token was changed, and by how much the prediction at each position has changed.
        shift: By how many positions the labels are ahead of the tokens.
        tolerance: The change that is rounding.
        reach: 0: the last prediction depends on the token at its own position only.
    """
    evidence: JsonObject = {
        "matrix": [list(moved[:SHOWN]) for _, moved in changes],
        "changed": [position for position, _ in changes],
    }
    ahead = [
        (position, before)
        for position, moved in changes
        for before in range(min(position - shift + 1, len(moved)))
        if moved[before] > tolerance
    ]
    if shift and ahead:
        position, before = ahead[0]
        return failed(
            f"the prediction at position {before} changes if the token at position {position} does, which is its label "
            "or comes after it",
            _ADVICE_AHEAD,
            **evidence,
        )
    if not shift and _sees_own(changes, tolerance):
        return failed(
            "the label of each position is the token at that position, which the prediction sees",
            "shift the labels by one: logits[:, :-1] against tokens[:, 1:]",
            **evidence,
        )
    if shift == 2:
        return failed(
            "the labels are the tokens two positions later: they are shifted twice",
            "shift them once, in the data or in the model",
            **evidence,
        )
    if reach == 0:
        return failed(
            "the prediction at a position depends on the token at that position only: the context is one token",
            "check the mask and the axis of attention, or carry the state from position to position",
            **evidence,
        )
    return passed(f"no prediction of {len(changes)} tested positions sees its label", **evidence)


def _sees_own(changes: Sequence[tuple[int, Sequence[float]]], tolerance: float) -> bool:
    return all(
        moved[position] > tolerance and max(moved[:position], default=0.0) <= tolerance
        for position, moved in changes
        if position < len(moved)
    )
