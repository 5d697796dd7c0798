"""The probe of padding that influences predictions or the loss."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from leadline.frameworks.check.outcome import Tested, failed, not_applicable
from leadline.frameworks.check.padding import (
    INVERT,
    NO_PADDING,
    NOT_CUT,
    OF_ONE_LENGTH,
    READS_PADDING,
    columns_cut,
    judge_padding,
    no_influence,
)
from leadline.frameworks.check.samples import IGNORED, NO_SAMPLES
from leadline.frameworks.torch.check.batch import Input
from leadline.frameworks.torch.check.outcome import CheckedStep
from leadline.frameworks.torch.check.step_copy import Repeated, StepCopy, Values

_OF_PADDING: Final = 4
"""Tokens that padding may consist of: those of padding and of the ends of sequences."""


def padding_influence(subject: CheckedStep) -> Tested:
    """Change what stands at padded positions, and cut padding off: predictions and the loss must stay the same."""
    step, batch = subject.step, subject.batch
    if _reads_padding(subject):
        return not_applicable(READS_PADDING)
    if batch.size < 2 or not batch.predictions:
        return not_applicable(NO_SAMPLES)
    found = _padding(subject)
    if found is None:
        return not_applicable(NO_PADDING)
    tokens, padded, mask = found
    lengths = _lengths_of_others(subject, padded)
    if lengths is not None:
        return failed(
            f"{lengths.name} are the lengths of the rows of {tokens.name} in another order",
            "sort the samples with their lengths, or give pack_padded_sequence enforce_sorted=False",
        )
    if mask is not None:
        different = _hidden_tokens(tokens, padded)
        if different:
            return failed(
                f"{mask.name} hides {100 * float(padded.double().mean()):.0f} % of {tokens.name}, with {different} "
                "different tokens: that is no padding",
                "mask padding only; what is not to be learned gets the label -100 instead",
            )
        inverted = _is_inverted(subject, tokens, padded)
        if inverted is not None:
            return inverted
    hidden, is_left = _not_judged(subject, padded), bool(padded[:, 0].any())
    before = step.run(evaluates=True, gradients=False)
    if mask is not None and tokens.value.is_floating_point():  # models recognize padding by its token, too
        given = _other_padding(tokens, padded)
        after = step.run({**given, mask.key: mask.value}, evaluates=True, gradients=False)
        what = f"what stands at padded positions of {tokens.name} changes"
        outcome = _compare(subject, before, after, hidden, what, is_left=is_left)
        if outcome is not None:
            return outcome
    return _without_padding(subject, tokens, padded, hidden, is_masked=mask is not None)


def _without_padding(
    subject: CheckedStep, tokens: Input, padded: torch.Tensor, hidden: torch.Tensor, *, is_masked: bool
) -> Tested:
    """Cut columns of padding off: predictions and the loss must stay the same.

    Args:
        hidden: The positions that are not judged, ``(samples, positions)``.
        is_masked: Whether the model is given a mask, and did not depend on what stands at padded positions.
    """
    step, is_left = subject.step, bool(padded[:, 0].any())
    share = float(padded.double().mean())
    trimmed = _trimmed(subject, padded)
    if trimmed is None:
        return no_influence(share, tokens.name) if is_masked else not_applicable(NOT_CUT)
    chosen, kept, count = trimmed
    before = step.run(subject.batch.exchanged(chosen, labels=True), evaluates=True, gradients=False)
    after = _of_other_length(step, kept)
    if after is None:
        return not_applicable(OF_ONE_LENGTH)
    outcome = _compare(subject, before, after, hidden[chosen], columns_cut(count), is_left=is_left)
    return outcome or no_influence(share, tokens.name)


def _of_other_length(step: StepCopy, given: Values) -> Repeated | None:
    """Return the step repeated with sequences of another length; None: its models do not take them."""
    try:
        return step.run(given, evaluates=True, gradients=False)
    except (RuntimeError, IndexError, ValueError, AssertionError):
        return None


def _reads_padding(subject: CheckedStep) -> bool:
    """Whether a recurrent model is given neither a mask nor lengths, as in many tutorials."""
    parts = [part for module in subject.step.modules for part in module.modules()]
    knows = any(_is_mask(item.value) or item.value.ndim == 1 for item in subject.batch.inputs)
    return any(isinstance(part, torch.nn.RNNBase) for part in parts) and not knows


def _compare(
    subject: CheckedStep, before: Any, after: Any, hidden: torch.Tensor, what: str, *, is_left: bool
) -> Tested | None:
    """Return the failure if predictions at positions that are judged, or the loss, have changed.

    Args:
        hidden: The positions that are not judged, ``(samples, positions)``.
        is_left: Whether padding comes first: the label of the first real token may belong to a padded position.
    """
    first, second = before.loss.detach(), after.loss.detach()
    prediction = subject.batch.predictions[0]
    old, new = before[prediction.key].detach().double(), after[prediction.key].detach().double()
    moved = 0.0
    if old.shape[:2] == hidden.shape and new.ndim == old.ndim:
        length = min(new.shape[1], old.shape[1])
        old, new = (old[:, -length:], new[:, -length:]) if is_left else (old[:, :length], new[:, :length])
        real = ~(hidden[:, -length:] if is_left else hidden[:, :length])
        old, new = old[real], new[real]
    if old.shape == new.shape:
        moved = float((old - new).abs().max()) / (float(before[prediction.key].detach().double().std()) or 1.0)
        if bool(torch.isfinite(old).all()) and not bool(torch.isfinite(new).all()):
            moved = math.inf
    losses = (float(first), float(second))
    return judge_padding(what, moved, losses, subject.step.tolerance, judges_loss=not is_left)


def _padding(subject: CheckedStep) -> tuple[Input, torch.Tensor, Input | None] | None:
    """Return what is padded, where, ``(samples, positions)``, and the mask that the model is given."""
    inputs = [item for item in subject.batch.inputs if item.axis == 0 and item.group == 1 and item.value.ndim >= 2]
    masks = [item for item in inputs if _is_mask(item.value)]
    tokens = [item for item in inputs if not _is_mask(item.value) and _varies(item.value)]
    for item in tokens:
        shape = item.value.shape[:2]
        for mask in masks:
            if mask.value.shape == shape:
                padded = _at_ends(mask.value)
                if padded is not None:
                    return item, padded, mask
        ignored = _ignored(subject, shape)
        padded = _trailing(item.value)
        if padded is not None and (ignored is None or bool(ignored[padded].all())):
            return item, padded, None
    return None


def _is_mask(value: torch.Tensor) -> bool:
    if value.ndim != 2:
        return False
    return value.dtype == torch.bool or bool(((value == 0) | (value == 1)).all())


def _varies(value: torch.Tensor) -> bool:
    return value.dtype != torch.bool and value.ndim in (2, 3)


def _at_ends(mask: torch.Tensor) -> torch.Tensor | None:
    """Return which positions are padded: the value of the mask that forms the ends of rows, not their beginnings."""
    on = mask.bool()
    for padded in (~on, on):
        if _is_tail(padded):
            return padded
    for padded in (~on, on):
        if _is_tail(padded.flip(1)):
            return padded
    return None


def _is_tail(padded: torch.Tensor) -> bool:
    """Whether padded positions follow all real ones in each row, in some rows but not in all."""
    has_padding = padded.any(1)
    falls = (padded[:, :-1] & ~padded[:, 1:]).any()
    return (
        bool(has_padding.any()) and not bool(padded.all(1).any()) and not bool(falls) and not bool(padded[:, 0].any())
    )


def _trailing(value: torch.Tensor) -> torch.Tensor | None:
    """Return the positions of one value that several rows end in, at different lengths."""
    flat = (
        value
        if value.ndim == 2
        else value.flatten(2).amax(2) - value.flatten(2).amin(2) + value.flatten(2).abs().amax(2)
    )
    if value.is_floating_point() and value.ndim == 2:
        return None
    last = flat[:, -1]
    filler = torch.zeros((), dtype=flat.dtype) if value.ndim == 3 else last.mode().values
    equal = flat == filler
    tail = equal.flip(1).long().cumprod(1).flip(1).bool()
    lengths = tail.sum(1)
    is_padding = lengths.unique().numel() > 1 and int((lengths >= 2).sum()) >= max(2, len(lengths) // 4)
    is_alone = not bool((equal & ~tail).any())
    return tail if is_padding and is_alone and not bool(tail.all(1).any()) else None


def _ignored(subject: CheckedStep, shape: torch.Size) -> torch.Tensor | None:
    for item in subject.batch.labels:
        if item.value.numel() == shape[0] * shape[1] and not item.value.is_floating_point():
            ignored = item.value.reshape(shape) == IGNORED
            if bool(ignored.any()):
                return ignored
    return None


def _other_padding(tokens: Input, padded: torch.Tensor) -> Values:
    """Return the tokens with other ones at padded positions: those of real positions, in another order."""
    value = tokens.value.clone()
    real = tokens.value[~padded]
    chosen = torch.arange(int(padded.sum())) * 7 % real.shape[0]
    value[padded] = real[chosen]
    return {tokens.key: value}


def _is_inverted(subject: CheckedStep, tokens: Input, padded: torch.Tensor) -> Tested | None:
    """Return the failure if predictions depend on padded positions, and not on real ones."""
    step, prediction = subject.step, subject.batch.predictions[0]
    before = prediction.rows(step.evaluated(prediction.key))
    scale = float(before.std()) or 1.0
    value = tokens.value.clone()
    rows = torch.nonzero(padded.any(1)).flatten()
    other = tokens.value.roll(1, 0)
    real = ~padded
    value[real] = other[real]
    masks = {item.key: item.value for item in subject.batch.inputs if _is_mask(item.value)}
    after = prediction.rows(
        step.run({tokens.key: value, **masks}, evaluates=True, until=prediction.key, gradients=False)[prediction.key]
    )
    moved = (after - before).abs().amax(1)[rows] / scale
    filled = {**_other_padding(tokens, padded), **masks}
    try:
        filled_step = step.run(filled, evaluates=True, until=prediction.key, gradients=False)
    except IndexError:
        return None  # positions that the model counts by its tokens, as RoBERTa does, exceed its table
    padding = prediction.rows(filled_step[prediction.key])
    moved_by_padding = (padding - before).abs().amax(1)[rows] / scale
    if prediction.value.shape[:2] == padded.shape:
        return None
    if float(moved.max()) <= step.tolerance < float(moved_by_padding.max()):
        return failed(
            f"predictions depend on padded positions of {tokens.name}, and not on real ones: the mask is inverted",
            INVERT,
        )
    return None


def _not_judged(subject: CheckedStep, padded: torch.Tensor) -> torch.Tensor:
    """Return the positions at which predictions count for nothing: padded ones, and those whose label is padding."""
    samples, length = padded.shape
    is_left = bool(padded[:, 0].any())
    place = torch.arange(length)
    for item in subject.batch.labels:
        if item.value.numel() == samples * length and not item.value.is_floating_point():
            ends = _ends(item, padded, is_left=is_left)[:, None]
            padded = padded | (place < ends if is_left else place >= length - ends)
            padded = padded | (item.value.reshape(samples, length) == IGNORED)
    return padded


def _hidden_tokens(tokens: Input, padded: torch.Tensor) -> int:
    """Return how many different tokens a mask hides, if they are more than padding has; 0: they are not."""
    value = tokens.value
    if value.is_floating_point() or value.ndim != 2:
        return 0
    different, all_of_them = int(value[padded].unique().numel()), int(value.unique().numel())
    return different if different > _OF_PADDING and 4 * different > all_of_them else 0


def _lengths_of_others(subject: CheckedStep, padded: torch.Tensor) -> Input | None:
    """Return an input that has the lengths of all rows, but not each at its row."""
    real = (~padded).sum(1)
    for item in subject.batch.inputs:
        value = item.value
        if value.ndim == 1 and len(value) == len(real) and not value.is_floating_point():
            is_same_set = torch.equal(value.sort().values.to(real.dtype), real.sort().values)
            if is_same_set and not torch.equal(value.to(real.dtype), real):
                return item
    return None


def _trimmed(subject: CheckedStep, padded: torch.Tensor) -> tuple[torch.Tensor, Values, int] | None:
    """Return samples that are shorter than the batch, everything of them without the padding, and how much that is.

    Shorter samples take the place of the longer ones: the number of samples stays.
    """
    samples, length = padded.shape
    padding = padded.sum(1)
    is_left = bool(padded[:, 0].any())
    for item in (*subject.batch.inputs, *subject.batch.labels):
        padding = torch.minimum(padding, _ends(item, padded, is_left=is_left))
    short = torch.nonzero(padding >= max(1, int(padding.double().quantile(0.5)))).flatten()
    count = int(padding[short].min()) if len(short) else 0
    if not count or count >= length:
        return None
    chosen = short[torch.arange(samples) % len(short)]
    kept: dict[int, torch.Tensor] = {}
    for item in (*subject.batch.inputs, *subject.batch.labels):
        value = item.with_samples(chosen)
        start = count if is_left else 0
        if item.axis == 0 and item.group == 1 and value.ndim >= 2 and value.shape[1] == length:
            value = value.narrow(1, start, length - count)
            if value.ndim > 2 and value.shape[2] == length:  # between positions, as of an adjacency or a mask
                value = value.narrow(2, start, length - count)
            value = value.contiguous()
        elif item.group == length:
            rows = value.reshape(samples, length, *value.shape[1:])
            value = rows.narrow(1, start, length - count).reshape(-1, *value.shape[1:])
        kept[item.key] = value
    return chosen, kept, count


def _ends(item: Input, padded: torch.Tensor, *, is_left: bool) -> torch.Tensor:
    """Return how many positions of each row have the value that padding has in an input, ``(samples,)``."""
    samples, length = padded.shape
    value = item.value
    if value.is_floating_point() or item.axis != 0 or value.numel() != samples * length:
        return torch.full((samples,), length)
    rows = value.reshape(samples, length)
    rows, ends = (rows.flip(1), padded.flip(1)) if is_left else (rows, padded)
    filler = rows[int(ends.sum(1).argmax()), -1]
    return (rows == filler).flip(1).long().cumprod(1).sum(1)
