"""How the labels of a sequence loss and the tokens that the model is given go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.autograd_graph import kind_of, saved
from leadline.frameworks.torch.capture.device_copy import number_of
from leadline.frameworks.torch.capture.loss_terms import LossTerm
from leadline.records.loss_facts import (
    DOUBLED_FIRST,
    IGNORE_INDEX,
    IGNORED_SHARE,
    IGNORED_TOKENS,
    KIND,
    LABELS_AT,
    LABELS_OF_PADDING,
    LossKind,
)

_MAX_NODES: Final = 4096
_MAX_EMBEDDINGS: Final = 4
MIN_LENGTH: Final = 8
_MIN_SAMPLES: Final = 4
"""Fewer sequences may begin alike by chance."""
_MAX_ELEMENTS: Final = 1 << 16
_WRAPPED: Final = 1 << 63
"""Numbers that a node has saved are without a sign: larger ones are negative."""
_CAUSAL: Final = "ForCausalLM"
"""What Transformers calls the loss of a causal language model."""
IGNORED: Final = -100
_CUT: Final = 1
"""Labels of one position may have been cut off."""


@dataclass(frozen=True, slots=True)
class _Embedded:
    """The tokens that an embedding looks up."""

    tokens: torch.Tensor
    """Shape ``(samples, positions)``."""
    padding: int
    """The token that is padding; negative: none is."""
    vocabulary: int
    """The number of tokens that it has vectors for."""


def position_facts(term: LossTerm) -> dict[str, Any]:
    """Return how the labels of a negative log-likelihood and the tokens that the model is given go together.

    The tokens, ``(samples, positions)``, are those of which an embedding below the predictions of the loss looks up
    vectors; the labels are as many, or one fewer for each sample. Ignored labels are left out.

    Returns:
        Device scalars or numbers by fact: ``LABELS_AT``, of several embeddings the largest shares; and the smallest
        shares ``LABELS_OF_PADDING``, where the loss is a mean or sum without weights, and ``DOUBLED_FIRST``, and the
        smallest number ``IGNORED_TOKENS``. Empty where the graph does not show both.
    """
    labels = saved(term.likelihood, "target") if term.likelihood is not None else None
    if labels is None or term.ignored is None or term.predictions[0] is None:
        return {}
    ignored = term.ignored[0]
    pairs = [
        (embedding, rows)
        for embedding in _embedded_below(term.predictions[0])
        if embedding.tokens.device == labels.device and (rows := _as_rows(labels, embedding.tokens)) is not None
    ]
    if not pairs:
        return {}
    found = {
        fact: torch.stack([_share_ahead(rows, embedding.tokens, ahead, ignored) for embedding, rows in pairs]).max()
        for ahead, fact in enumerate(LABELS_AT)
    }
    if min(len(embedding.tokens) for embedding, _ in pairs) >= _MIN_SAMPLES:
        found[DOUBLED_FIRST] = torch.stack([_doubled(embedding.tokens) for embedding, _ in pairs]).min()
    if term.likelihood._saved_reduction and getattr(term.likelihood, "_saved_weight", None) is None:
        found[LABELS_OF_PADDING] = torch.stack(
            [_share_of_padding(rows, embedding, ignored) for embedding, rows in pairs]
        ).min()
    classes = _classes(term.likelihood)
    larger = [(embedding, rows) for embedding, rows in pairs if embedding.vocabulary > classes]
    if larger and 0 <= ignored < classes:
        found[IGNORED_TOKENS] = torch.stack([_ignored_between(rows, given, ignored) for given, rows in larger]).min()
    numbers = {fact: number_of(share) for fact, share in found.items()}
    return {fact: number for fact, number in numbers.items() if number is not None}


def facts_of_given(model: torch.nn.Module, given: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Return how labels and tokens go together that a causal language model of Transformers is given by name.

    It shifts the labels by one itself. This is all that is known where a trainer computes the loss in a function of its
    own, as TRL does.

    Returns:
        Device scalars or numbers by fact, as those of a loss call; empty where the model is another one.
    """
    labels, tokens = given.get("labels"), given.get("input_ids")
    if not shifts_labels(model) or labels is None or tokens is None or labels.shape != tokens.shape:
        return {}
    if labels.dim() != 2 or labels.shape[1] < MIN_LENGTH or labels.is_floating_point():
        return {}
    shares = [
        _share_ahead(labels[:, 1:], tokens, 0, IGNORED),
        _share_ahead(labels, tokens, 0, IGNORED),
        _share_ahead(labels, tokens, 1, IGNORED),
    ]
    found = dict(zip(LABELS_AT, shares, strict=True))
    found[IGNORED_SHARE] = (labels == IGNORED).double().mean()
    if len(tokens) >= _MIN_SAMPLES:
        found[DOUBLED_FIRST] = _doubled(tokens)
    numbers = {fact: number_of(share) for fact, share in found.items()}
    known = {fact: number for fact, number in numbers.items() if number is not None}
    loss = LossKind.CROSS_ENTROPY
    known |= {KIND: float(loss), IGNORE_INDEX: float(IGNORED)}
    return {f"{loss.name.lower()}/{fact}": number for fact, number in known.items()}


def shifts_labels(model: torch.nn.Module) -> bool:
    """Return whether a model is a causal language model of Transformers, with adapters of PEFT or not.

    It shifts its labels itself.
    """
    inner = getattr(model, "module", None)
    adapted = [find() for one in (model, inner) if callable(find := getattr(one, "get_base_model", None))]
    for module in (model, inner, *adapted):
        kind, name = getattr(module, "loss_type", None), type(module).__name__
        if kind == _CAUSAL or (kind is None and name.endswith("LMHeadModel")):
            return True
    return False


def _embedded_below(node: Any) -> list[_Embedded]:
    """Return the tokens that embeddings look up, of the nodes nearest to a node."""
    nodes, known, found = [node], {node}, []
    for below in nodes:
        if kind_of(below) == "EmbeddingBackward0":
            tokens = saved(below, "indices")
            if tokens is not None and tokens.dim() == 2 and tokens.shape[1] >= MIN_LENGTH:
                padding = int(below._saved_padding_idx)
                vocabulary = int(below._saved_weight_sym_argsize_0)
                found.append(_Embedded(tokens, padding if padding < _WRAPPED else -1, vocabulary))
                if len(found) == _MAX_EMBEDDINGS:
                    break
        for parent, _ in below.next_functions:
            if parent is not None and parent not in known and len(nodes) < _MAX_NODES:
                known.add(parent)
                nodes.append(parent)
    return found


def _classes(likelihood: Any) -> int:
    """Return the number of classes of a negative log-likelihood; 0 where its node does not show it."""
    given = saved(likelihood, "self")
    return given.shape[min(given.dim(), 2) - 1] if given is not None and given.dim() else 0


def _as_rows(labels: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor | None:
    """Return the labels as ``(samples, positions)``; None if they are not those of so many tokens."""
    samples, length = tokens.shape
    if labels.numel() % samples or not length - _CUT <= labels.numel() // samples <= length:
        return None
    return labels.reshape(samples, -1)


def first_rows_of(values: torch.Tensor) -> torch.Tensor:
    """Return the first rows, as far as they are looked at."""
    return values[: max(1, _MAX_ELEMENTS // values.shape[1])]


def _share_ahead(labels: torch.Tensor, tokens: torch.Tensor, ahead: int, ignored: int) -> torch.Tensor:
    """Return the share of the labels that are the token so many positions later; NaN if there are none."""
    labels, tokens = first_rows_of(labels), first_rows_of(tokens)[:, ahead:]
    length = min(labels.shape[1], tokens.shape[1])
    labels, tokens = labels[: len(tokens), :length], tokens[: len(labels), :length]
    counted = labels != ignored
    return ((labels == tokens) & counted).sum() / counted.sum()


def _share_of_padding(labels: torch.Tensor, given: _Embedded, ignored: int) -> torch.Tensor:
    """Return the share of the labels at the beginning or end of sequences where the tokens are all padding.

    NaN if there are no labels.
    """
    labels, tokens = first_rows_of(labels), first_rows_of(given.tokens)[:, : labels.shape[1]]
    counted = labels[: len(tokens)] != ignored
    is_padding = (tokens[: len(counted)] == given.padding).int()
    is_outside = (is_padding.cumprod(1) + is_padding.flip(1).cumprod(1).flip(1)).bool()
    return (is_outside & counted).sum() / counted.sum()


def _doubled(tokens: torch.Tensor) -> torch.Tensor:
    """Return the share of the sequences that begin with two equal tokens, and another one behind them."""
    first, second, third = tokens[:, 0], tokens[:, 1], tokens[:, 2]
    return ((first == second) & (second != third)).double().mean()


def _ignored_between(labels: torch.Tensor, given: _Embedded, ignored: int) -> torch.Tensor:
    """Return how many different tokens there are at ignored positions between counted ones of their sequence.

    What begins, ends or fills a sequence up is not between.
    """
    labels, tokens = first_rows_of(labels), first_rows_of(given.tokens)[:, : labels.shape[1]]
    counted = (labels[: len(tokens)] != ignored).int()
    is_between = (counted.cummax(1).values * counted.flip(1).cummax(1).values.flip(1) > counted).flatten()
    kinds = tokens[: len(counted)].flatten().where(is_between, -1)
    return (torch.cat([kinds, kinds.new_full((1,), -1)]).sort().values.diff() != 0).sum()
