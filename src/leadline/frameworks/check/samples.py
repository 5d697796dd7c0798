"""How the influence of samples, positions and labels on predictions and the loss is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from leadline.frameworks.check.outcome import Tested, failed, passed
from leadline.records.json_object import JsonObject

ROUNDING: Final = 1e-4
"""The share of the predictions' standard deviation below which a difference is rounding."""
REDUCED_ROUNDING: Final = 0.1
"""The same in reduced precision."""
IGNORED: Final = -100
"""The label that losses of PyTorch, and of libraries after it, ignore."""
OF_PLACES: Final = 10.0
"""Times that share, below which a difference between places is rounding: rows are added up in another order there."""
SHOWN: Final = 16
NO_SAMPLES: Final = "the batch has no axis of samples that inputs and predictions share"
COMPARES_ALL: Final = "the predictions compare each sample with all others"
ALL_EQUAL: Final = "all samples of the batch are equal"
NOT_FINITE: Final = "predictions are not finite"
NO_LABELS: Final = "the loss is given no labels"
SHIFTS: Final = (1, -1, 2, -2)
PERMUTATIONS: Final = 6
DECREASE: Final = 0.01
"""Of the loss, by which a small step is to lower it."""
QUARTERINGS: Final = 12
NO_DESCENT: Final = "no small step along the gradient lowers the loss of this batch"
NO_PREDICTION: Final = "which prediction a label belongs to is not known"
DIRECTION_ADVICE: Final = (
    "minimize the loss itself: look for a missing or doubled minus sign, for exchanged arguments (predictions first, "
    "labels second), and for labels that were encoded another way"
)
_MIXED_ADVICE: Final = (
    "keep the samples apart in it: a reshape or view that swaps axes, a softmax or norm over dimension 0, batch_first, "
    "or attention over the batch are the usual causes"
)
_PLACES_ADVICE: Final = (
    "give each sample the same treatment at every place: a positional encoding or an index along the axis of the "
    "samples, x.size(0) in place of x.size(1), and shapes that broadcast along that axis are the usual causes"
)
_BETTER: Final = 0.7


def exchanged_pairs(size: int) -> list[tuple[int, tuple[int, int]]]:
    """Return which samples of a batch are replaced, each with the two that may take its place."""
    return [
        (source, ((source + 1) % size, (source + size // 2) % size))
        for source in dict.fromkeys((0, size // 2, size - 1))
    ]


def changes_of_rows(moved: Mapping[int, list[float]], worst: float) -> JsonObject:
    """Return the evidence of a probe that replaces samples.

    Args:
        moved: By how much each prediction has changed, by the sample that was replaced.
        worst: The largest change.
    """
    return {"matrix": list(moved.values()), "changed": list(moved), "largest_change": worst}


def samples_apart(changed: int, size: int, /, **evidence: Any) -> Tested:
    """Return the outcome if no prediction depends on another sample."""
    return passed(f"{changed} of {size} samples were replaced: no other prediction changed", **evidence)


def samples_mixed(pair: tuple[int, int], worst: float, where: str, *, mode: str, **evidence: Any) -> Tested:
    """Return the failure of predictions that depend on other samples.

    Args:
        pair: The sample that was replaced, and one whose prediction has changed.
        worst: The largest change, as a share of the predictions' standard deviation.
        where: The first part of the model whose output mixes samples; "": it is not known.
        mode: The mode of the model.
    """
    place = f"; {where} is the first module whose output mixes samples" if where else ""
    return failed(
        f"in {mode} mode, replacing sample {pair[0]} changes the prediction of sample {pair[1]} by "
        f"{worst:.2g} of the predictions' standard deviation{place}",
        _MIXED_ADVICE,
        module=where,
        **evidence,
    )


def other_places(size: int) -> list[int]:
    """Return which sample takes each place of a batch, ``(samples,)``, none its own."""
    return [*range(1, size), 0]


def places_matter(worst: float, where: str, *, mode: str, **evidence: Any) -> Tested:
    """Return the failure of predictions that depend on the place of their sample in the batch.

    Args:
        worst: The largest change, as a share of their size.
        where, mode: As in ``samples_mixed``.
    """
    place = f"; {where} is the first module whose output depends on the place" if where else ""
    return failed(
        f"in {mode} mode, samples that change their places in the batch get other predictions: by up to {worst:.2g} "
        f"of their size{place}",
        _PLACES_ADVICE,
        module=where,
        largest_change_by_place=worst,
        **evidence,
    )


def labels_shifted(own: float, others: Callable[[], Sequence[float]], shifted: Mapping[int, float]) -> Tested | None:
    """Return the failure if labels fit the inputs of the samples beside theirs better than their own.

    Args:
        own: The loss.
        others: Returns the losses with permuted labels; asked for only if a shift is better by far.
        shifted: The losses with labels that are rolled by so many samples.
    """
    for shift, loss in shifted.items():
        if 0 <= loss < _BETTER * own and loss < _BETTER * min(others()):
            return failed(
                f"the labels fit the inputs {abs(shift)} sample{'s' * (abs(shift) > 1)} "
                f"{'later' if shift < 0 else 'earlier'} better than their own: the loss is {loss:.4g} instead of "
                f"{own:.4g}",
                "keep inputs and labels in one order: shuffle, sort and filter both by the same indices",
                shift=shift,
                loss=own,
                shifted=loss,
            )
    return None


def moves_away(decrease: float, first: float, last: float) -> Tested:
    """Return the failure of a loss whose decrease moves predictions away from the labels."""
    return failed(
        f"a step that lowers the loss by {decrease:.2g} moves the predictions away from the labels "
        f"({first:.6g} → {last:.6g}, the higher the nearer)",
        DIRECTION_ADVICE,
        decrease=decrease,
    )


def moves_nearer(decrease: float) -> Tested:
    """Return the outcome of a loss that asks for the labels."""
    return passed(f"a small step lowers the loss by {decrease:.2g}, and moves the predictions towards the labels")
