"""The probe of padding that influences predictions or the loss."""

from __future__ import annotations

import numpy as np

from leadline.frameworks.check.outcome import Tested, not_applicable, one_line
from leadline.frameworks.check.padding import NO_PADDING, NOT_CUT, columns_cut, judge_padding, no_influence
from leadline.frameworks.check.samples import NO_SAMPLES
from leadline.frameworks.pure_check.batch import PureBatch
from leadline.frameworks.pure_check.pure_step import Array, Leaf


def padding_influence(batch: PureBatch) -> Tested:
    """Cut padding off: predictions and the loss must stay the same."""
    if batch.size < 2 or batch.rows(batch.base) is None:
        return not_applicable(NO_SAMPLES)
    found = next(((leaf, padded) for leaf in batch.inputs if (padded := _trailing(leaf, batch)) is not None), None)
    if found is None:
        return not_applicable(NO_PADDING)
    if why := batch.step.why_padding_is_read():
        return not_applicable(why)
    tokens, padded = found
    length = padded.shape[1]
    padding = padded.sum(1)
    short = np.nonzero(padding >= max(1, int(np.median(padding))))[0]
    count = int(padding[short].min()) if len(short) else 0
    if not 0 < count < length or any(_has_positions(leaf, batch, length) for leaf in batch.labels):
        return not_applicable(NOT_CUT)
    chosen = short[np.arange(batch.size) % len(short)]
    whole = batch.exchanged(chosen, labels=True)
    cut = {
        leaf.key: whole[leaf.key][:, : length - count] for leaf in batch.inputs if _has_positions(leaf, batch, length)
    }
    step = batch.step
    before = step.compute(whole, evaluates=True)
    try:
        after = step.compute({**whole, **cut}, evaluates=True)
    except Exception as error:  # noqa: BLE001 - the model may be made for one length
        return not_applicable(f"{NOT_CUT}: {one_line(error)}")
    old, new = batch.rows(before), batch.rows(after)
    if old is None or new is None or old.shape != new.shape:
        return not_applicable(NOT_CUT)
    moved = float(np.abs(old - new).max()) / (float(old.std()) or 1.0)
    if np.isfinite(old).all() and not np.isfinite(new).all():
        moved = float("inf")
    outcome = judge_padding(columns_cut(count), moved, (before.loss, after.loss), step.tolerance)
    return outcome or no_influence(float(padded.mean()), tokens.name)


def _has_positions(leaf: Leaf, batch: PureBatch, length: int) -> bool:
    return batch.has_samples(leaf) and leaf.value.ndim >= 2 and leaf.value.shape[1] == length


def _trailing(leaf: Leaf, batch: PureBatch) -> Array | None:
    """Return the positions of one value that several rows end in, at different lengths, ``(samples, positions)``."""
    value = leaf.value
    is_float = np.issubdtype(value.dtype, np.floating)
    if not batch.has_samples(leaf) or value.ndim not in (2, 3) or (is_float and value.ndim == 2):
        return None
    if value.ndim == 3:
        equal = (value == 0).all(2)
    else:
        values, counts = np.unique(value[:, -1], return_counts=True)
        equal = value == values[counts.argmax()]
    tail: Array = np.flip(np.cumprod(np.flip(equal, 1), 1), 1).astype(bool)
    lengths = tail.sum(1)
    is_padding = len(np.unique(lengths)) > 1 and int((lengths >= 2).sum()) >= max(2, len(lengths) // 4)
    is_alone = not (equal & ~tail).any()
    return tail if is_padding and is_alone and not tail.all(1).any() else None
