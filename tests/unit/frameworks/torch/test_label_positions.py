"""Labels of a sequence loss are compared with the tokens below it, at the same position and at later ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from leadline.frameworks.torch.capture.label_positions import position_facts
from leadline.frameworks.torch.capture.loss_terms import LossTerms
from leadline.records.loss_facts import DOUBLED_FIRST, IGNORED_TOKENS, LABELS_AT, LABELS_OF_PADDING

TOKENS = torch.randint(30, (4, 17), generator=torch.Generator().manual_seed(0))


def network() -> nn.Module:
    return nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 30))


def facts_of_tokens(loss: torch.Tensor) -> dict[str, float]:
    (term,) = LossTerms(lambda node: None, lambda name: None).find(loss.grad_fn)
    return {fact: float(getattr(number, "value", number)) for fact, number in position_facts(term).items()}


def shares(loss: torch.Tensor) -> list[float]:
    found = facts_of_tokens(loss)
    return [found[fact] for fact in LABELS_AT] if found else []


def loss_of(model: nn.Module, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    logits = model(tokens)[:, : labels.shape[1]]
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_the_position_of_the_labels_is_known(ahead: int) -> None:
    tokens, labels = TOKENS[:, :-2], TOKENS[:, ahead : ahead + 15]
    found = shares(loss_of(network(), tokens, labels))
    assert found[ahead] == 1
    assert max(found[:ahead] + found[ahead + 1 :]) < 0.5
    in_two_dimensions = F.cross_entropy(network()(tokens).transpose(1, 2), labels)
    assert shares(in_two_dimensions) == found


@pytest.mark.parametrize("ahead", [1, 2])
def test_the_labels_may_be_one_fewer_than_the_tokens(ahead: int) -> None:
    labels = TOKENS.roll(1 - ahead, 1)[:, 1:]
    found = shares(loss_of(network(), TOKENS, labels))
    assert found[ahead] == (1 if ahead == 1 else pytest.approx(1))
    assert found[3 - ahead] < 0.5


def test_ignored_labels_are_left_out() -> None:
    labels = TOKENS[:, 1:].clone()
    labels[:, :10] = -100
    assert shares(loss_of(network(), TOKENS[:, :-1], labels))[1] == 1
    assert all(map(math.isnan, shares(loss_of(network(), TOKENS[:, :-1], torch.full((4, 16), -100)))))


def test_the_shares_equal_those_of_numpy() -> None:
    labels = torch.where(torch.rand(4, 17) < 0.5, TOKENS, 3)
    tokens, given = TOKENS.numpy(), labels.numpy()
    expected = [float(np.mean(given[:, : 17 - ahead] == tokens[:, ahead:])) for ahead in range(3)]
    assert shares(loss_of(network(), TOKENS, labels)) == pytest.approx(expected)


def test_of_several_embeddings_the_tokens_count() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places, self.head = nn.Embedding(30, 8), nn.Embedding(40, 8), nn.Linear(8, 30)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            places = torch.arange(tokens.shape[1]).expand_as(tokens)
            logits: torch.Tensor = self.head(self.tokens(tokens) + self.places(places))
            return logits

    assert shares(loss_of(Model(), TOKENS[:, :-1], TOKENS[:, 1:]))[1] == 1


def test_nothing_is_known_without_tokens_or_as_many_labels() -> None:
    frozen = network()
    frozen[0].requires_grad_(False)
    assert shares(loss_of(frozen, TOKENS[:, :-1], TOKENS[:, 1:])) == []
    pooled = F.cross_entropy(network()(TOKENS).mean(1), torch.tensor([1, 2, 3, 4]))
    assert shares(pooled) == []
    assert shares(loss_of(network(), TOKENS[:, :5], TOKENS[:, 1:6])) == []


def padded() -> tuple[nn.Module, torch.Tensor]:
    """Return a network with padding 0, and tokens of which 4 of 16 are padding, at both ends, and one within."""
    tokens = TOKENS[:, :16].clamp(min=1)
    tokens[:, :1] = tokens[:, 13:] = tokens[:, 6] = 0
    return nn.Sequential(nn.Embedding(30, 8, padding_idx=0), nn.Linear(8, 30)), tokens


def test_labels_of_padding_are_those_at_both_ends() -> None:
    model, tokens = padded()
    labels = torch.ones_like(tokens)
    assert facts_of_tokens(loss_of(model, tokens, labels))[LABELS_OF_PADDING] == 4 / 16
    labels[:, :1] = labels[:, 14:] = -100
    assert facts_of_tokens(loss_of(model, tokens, labels))[LABELS_OF_PADDING] == pytest.approx(1 / 13)
    assert facts_of_tokens(loss_of(network(), tokens, labels))[LABELS_OF_PADDING] == 0


def test_a_loss_with_weights_or_without_a_reduction_may_leave_padding_out() -> None:
    model, tokens = padded()
    logits, labels = model(tokens).flatten(0, 1), torch.ones(4 * 16, dtype=torch.long)
    for loss in (
        F.cross_entropy(logits, labels, weight=torch.ones(30)),
        F.cross_entropy(logits, labels, reduction="none").mean(),
    ):
        found = facts_of_tokens(loss)
        assert LABELS_AT[0] in found
        assert LABELS_OF_PADDING not in found


def test_sequences_that_begin_with_a_token_twice_are_counted() -> None:
    tokens = TOKENS.clone()
    tokens[:, 1] = tokens[:, 0]
    tokens[:, 2] = (tokens[:, 0] + 1) % 30
    tokens[3, 2] = tokens[3, 0]  # as padding does
    labels = torch.ones_like(tokens)
    assert facts_of_tokens(loss_of(network(), tokens, labels))[DOUBLED_FIRST] == 0.75
    assert DOUBLED_FIRST not in facts_of_tokens(loss_of(network(), tokens[:3], labels[:3]))


def ignored_tokens(tags: torch.Tensor, tokens: torch.Tensor = TOKENS, ignored: int = 0) -> float | None:
    """Return the fact of a tagger with three tags."""
    logits = nn.Sequential(nn.Embedding(30, 8, padding_idx=0), nn.Linear(8, 3))(tokens)
    loss = F.cross_entropy(logits.transpose(1, 2), tags, ignore_index=ignored)
    return facts_of_tokens(loss).get(IGNORED_TOKENS)


def test_tokens_between_labels_whose_class_is_ignored_are_counted() -> None:
    tags = (TOKENS % 3 == 0).long() * (1 + TOKENS % 2)
    kinds = set()
    for tokens, given in zip(TOKENS.tolist(), tags.tolist(), strict=True):
        counted = [at for at, tag in enumerate(given) if tag]
        kinds |= {tokens[at] for at in range(counted[0], counted[-1]) if not given[at]}
    assert ignored_tokens(tags) == len(kinds) > 4


def test_ignored_labels_of_padding_and_of_what_separates_texts_are_hardly_any_tokens() -> None:
    tokens, tags = TOKENS.clamp(min=3), torch.ones(4, 17, dtype=torch.long)
    tokens[:, 0], tokens[:, 7], tokens[:, 12:] = 1, 2, 0
    assert ignored_tokens(tags.where(tokens > 2, 0), tokens) == 1
    assert ignored_tokens(tags, tokens) == 0


def test_an_index_that_is_no_class_or_labels_that_are_tokens_are_left_out() -> None:
    tags = torch.ones(4, 17, dtype=torch.long)
    assert ignored_tokens(tags.where(TOKENS > 9, -100), ignored=-100) is None
    masked = TOKENS.where(torch.rand(4, 17) < 0.15, 0)
    assert IGNORED_TOKENS not in facts_of_tokens(
        F.cross_entropy(network()(TOKENS).transpose(1, 2), masked, ignore_index=0)
    )
