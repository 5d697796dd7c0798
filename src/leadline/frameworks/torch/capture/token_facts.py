"""What a causal language model of Transformers is given by name: its end token, its labels, padding and packed rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.device_copy import number_of
from leadline.frameworks.torch.capture.frozen_rows import count_equal_rows, count_new_rows
from leadline.frameworks.torch.capture.label_positions import IGNORED, MIN_LENGTH, first_rows_of, shifts_labels
from leadline.frameworks.torch.naming.model_names import unwrap
from leadline.records.loss_facts import (
    BEGIN_SEQUENCES,
    BEGIN_TOKEN,
    COMMON_LABELS,
    COMMON_START,
    CUT_SEQUENCES,
    END_LABELS,
    END_SEQUENCES,
    END_TOKEN,
    ENDED_SEQUENCES,
    EQUAL_ROWS,
    INNER_START,
    IS_END_PADDING,
    LABEL_SHARE,
    LABELS_OF_INPUT,
    MIXED_ROWS,
    NEW_ROWS,
    PADDING_SHARE,
    SEQUENCES,
    SEQUENCES_WITHOUT_LABELS,
)

_PLAIN_ATTENTION: Final = frozenset({"sdpa", "eager"})
"""Implementations of attention that know of packed rows by their mask alone."""
_MAX_ENDS: Final = 4
_TEMPLATE: Final = 4
"""So many tokens in a row that all sequences hold are of a template, not of what people write."""
_MIN_VOCABULARY: Final = 512
"""Of fewer tokens, as of letters, rows have such tokens in common by chance."""
_MAX_ROWS: Final = 16
_FACTOR: Final = 0x5851F42D4C957F2D
"""Of a hash of tokens, odd (Knuth, MMIX)."""
_MASKING: Final = "transformers.masking_utils"
_FIND_PACKED: Final = "find_packed_sequence_indices"
_LENGTHS: Final = {"cu_seq_lens_q", "cu_seqlens"}
"""The ends of packed samples, for implementations that separate them."""


def token_facts(model: torch.nn.Module, given: Mapping[str, torch.Tensor], *, has_cached: bool) -> dict[str, Any]:
    """Return facts about the tokens and labels that a causal language model of Transformers is given by name.

    Args:
        given: Tensors by name; tokens, labels, mask and positions are ``(samples, positions)``.
        has_cached: Whether the model has kept its keys and values.

    Returns:
        Device scalars or numbers by fact, from ``SEQUENCES`` on in ``leadline.records.loss_facts``; empty where the
        model is another one, or tokens and labels have not the same shape. Of sequences of fewer than 8 positions only
        what is known of their labels and rows.
    """
    labels, tokens = given.get("labels"), given.get("input_ids")
    if not shifts_labels(model) or labels is None or tokens is None or labels.shape != tokens.shape:
        return {}
    if labels.dim() != 2 or labels.is_floating_point():
        return {}
    model, mask = unwrap(model), given.get("attention_mask")
    has_mask = mask is not None and mask.shape == tokens.shape
    labels, tokens = first_rows_of(labels), first_rows_of(tokens)
    is_given = first_rows_of(mask).bool() if has_mask and mask is not None else torch.ones_like(tokens).bool()
    counted = labels != IGNORED
    found: dict[str, Any] = {
        LABELS_OF_INPUT: ((labels == tokens) & counted).sum() / counted.sum(),
        **_of_rows(model, tokens),
    }
    if labels.shape[1] < MIN_LENGTH:
        return _numbers(found)
    found |= {
        SEQUENCES: len(tokens),
        LABEL_SHARE: counted.sum() / is_given.sum(),
        SEQUENCES_WITHOUT_LABELS: (~counted[:, 1:].any(1)).sum(),
        **_of_start(tokens, counted, is_given),
        **_of_end(model, tokens, counted, is_given, has_mask=has_mask),
        **_of_begin(model, tokens, is_given),
        **_of_template(model, tokens, is_given),
    }
    if has_mask:
        found[PADDING_SHARE] = 1 - is_given.double().mean()
    if mask is None or has_mask:
        is_separated = not has_mask and not has_cached and hasattr(sys.modules.get(_MASKING), _FIND_PACKED)
        found |= _of_packed(model, given, is_given, is_separated=is_separated)
    return _numbers(found)


def _numbers(found: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {
        fact: number_of(value) if isinstance(value, torch.Tensor) else float(value) for fact, value in found.items()
    }
    return {fact: number for fact, number in numbers.items() if number is not None}


def _of_rows(model: torch.nn.Module, tokens: torch.Tensor) -> dict[str, Any]:
    """Return how many tokens have equal or new rows in a frozen embedding, however short the sequences are."""
    rows = {EQUAL_ROWS: count_equal_rows(model, tokens), NEW_ROWS: count_new_rows(model, tokens)}
    return {fact: count for fact, count in rows.items() if count is not None}


def _of_start(tokens: torch.Tensor, counted: torch.Tensor, is_given: torch.Tensor) -> dict[str, Any]:
    is_common = ((tokens == tokens[:1]) & is_given).all(0).int().cumprod(0).bool()
    are_labels = counted.all(0) & is_common
    return {COMMON_START: is_common.sum(), COMMON_LABELS: are_labels[1:].sum()}  # nothing predicts the first token


def _of_end(
    model: Any, tokens: torch.Tensor, counted: torch.Tensor, is_given: torch.Tensor, *, has_mask: bool
) -> dict[str, Any]:
    ends = list(dict.fromkeys(_end_tokens(model)))
    if not ends or len(ends) > _MAX_ENDS:
        return {}
    is_end = torch.stack([tokens == end for end in ends]).any(0)
    is_behind = is_given.int().cumsum(1) > 1  # GPT-2 begins with the token that ends
    padding = getattr(_config(model), "pad_token_id", None)
    found = {
        END_TOKEN: ends[0],
        END_SEQUENCES: (is_end & is_given & is_behind).any(1).sum(),
        END_LABELS: (is_end & counted)[:, 1:].sum(),
        IS_END_PADDING: padding in ends,
    }
    if has_mask:
        is_inner_end = is_end & is_given & is_behind
        places = torch.arange(tokens.shape[1], device=tokens.device)
        is_last = places == (places * is_given).amax(1, keepdim=True)
        found[CUT_SEQUENCES] = (is_given.all(1) & counted[:, -1] & ~is_inner_end.any(1)).sum()
        found[ENDED_SEQUENCES] = (is_inner_end.sum(1).eq(1) & (is_inner_end & is_last).any(1)).sum()
    return found


def _of_begin(model: Any, tokens: torch.Tensor, is_given: torch.Tensor) -> dict[str, Any]:
    """Return in how many sequences the token of the beginning occurs; empty for a model that was not pretrained."""
    config = _config(model)
    if not getattr(config, "_name_or_path", None):
        return {}
    begin, vocabulary = getattr(config, "bos_token_id", None), getattr(config, "vocab_size", None)
    if not isinstance(begin, int) or not isinstance(vocabulary, int) or not 0 <= begin < vocabulary:
        return {}
    if begin in _end_tokens(model) or begin == getattr(config, "pad_token_id", None):
        return {}
    return {BEGIN_TOKEN: begin, BEGIN_SEQUENCES: ((tokens == begin) & is_given).any(1).sum()}


def _of_template(model: Any, tokens: torch.Tensor, is_given: torch.Tensor) -> dict[str, Any]:
    """Return in how many places of the first sequence tokens begin that the others have, too, behind the beginning."""
    vocabulary = getattr(_config(model), "vocab_size", None)
    if not isinstance(vocabulary, int) or vocabulary < _MIN_VOCABULARY:
        return {}
    if len(tokens) == 1 or tokens.shape[1] < 2 * _TEMPLATE:
        return {}
    tokens, is_given = tokens[:_MAX_ROWS].long(), is_given[:_MAX_ROWS]
    is_behind = ((tokens != tokens[:1]) | ~is_given).any(0).int().cumsum(0).bool()
    hashes, is_whole = torch.zeros_like(tokens), torch.ones_like(is_given)
    for at in range(_TEMPLATE):
        hashes = (hashes + tokens.roll(-at, 1) + 1) * _FACTOR
        is_whole &= is_given.roll(-at, 1)
    hashes, is_whole = hashes[:, : 1 - _TEMPLATE], is_whole[:, : 1 - _TEMPLATE]
    rows = torch.arange(len(tokens), device=tokens.device)[:, None]
    known = hashes.where(is_whole, -1 - rows).sort(1).values
    places = torch.searchsorted(known[1:], hashes[:1].expand(len(tokens) - 1, -1).contiguous())
    found = known[1:].gather(1, places.clamp(max=known.shape[1] - 1)) == hashes[:1]
    return {INNER_START: (found.all(0) & is_whole[0] & is_behind[: 1 - _TEMPLATE]).sum()}


def _of_packed(
    model: Any, given: Mapping[str, torch.Tensor], is_given: torch.Tensor, *, is_separated: bool
) -> dict[str, Any]:
    """Return how many rows hold several samples, by their positions, that attend to each other.

    Args:
        is_separated: Whether samples are separated by their positions: Transformers does that from version 4.53 on, as
            long as it is given no mask, and keeps no keys and values. Implementations of attention other than those of
            PyTorch have their own ways.
    """
    positions, tokens = given.get("position_ids"), given["input_ids"]
    is_plain = getattr(_config(model), "_attn_implementation", None) in _PLAIN_ATTENTION
    if positions is None or positions.shape != tokens.shape or not is_plain or _LENGTHS & set(given):
        return {}
    if is_separated:
        return {MIXED_ROWS: 0.0}
    begins = (first_rows_of(positions)[:, 1:] == 0) & is_given[:, 1:] & is_given[:, :-1]
    mask = given.get("attention_mask")
    if mask is not None:
        begins &= ~(mask > 1).any()  # a mask that numbers the samples is for an implementation that separates them
    return {MIXED_ROWS: begins.any(1).sum()}


def _config(model: Any) -> Any:
    """Return the configuration of a model; None: it only has a name like those of Transformers."""
    return getattr(model, "config", None)


def _end_tokens(model: Any) -> Iterator[int]:
    """Yield the tokens that end a text for the model, as its own configurations say."""
    for config in (_config(model), getattr(model, "generation_config", None)):
        known = getattr(config, "eos_token_id", None)
        yield from (end for end in (known if isinstance(known, list) else [known]) if isinstance(end, int))
