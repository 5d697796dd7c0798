"""Tokens that a frozen embedding does not tell apart."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from torch import nn

from leadline.frameworks.torch.capture.frozen_rows import count_equal_rows, count_new_rows
from leadline.frameworks.torch.capture.resized_embeddings import ResizedEmbeddings
from leadline.frameworks.torch.capture.token_facts import token_facts
from leadline.instrumentation.guard import Fact, Guard


class Model(nn.Module):
    def __init__(self, size: int = 300) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size, 8)
        self.tokens.weight.requires_grad_(False)
        self.tokens.weight[-3:] = self.tokens.weight[-1].clone()

    def get_input_embeddings(self) -> nn.Module:
        return self.tokens


@pytest.mark.parametrize(
    ("tokens", "equal"), [([0, 1, 299], 0), ([299, 299], 0), ([298, 299], 2), ([5, 297, 298, 299], 3)]
)
def test_used_tokens_with_equal_rows_are_counted(tokens: list[int], equal: int) -> None:
    count = count_equal_rows(Model(), torch.tensor([tokens]))
    assert count is not None
    assert count.item() == equal


def test_rows_of_zeros_and_those_far_from_the_end_are_left_out() -> None:
    model = Model()
    model.tokens.weight[-3:] = 0.0
    model.tokens.weight[:2] = 1.0
    assert count_equal_rows(model, torch.tensor([0, 1, 298, 299])) == 0
    small = Model(5)
    assert count_equal_rows(small, torch.tensor([0, 3, 4])) == 2


def test_a_trained_embedding_is_not_looked_at() -> None:
    model = Model()
    model.tokens.weight.requires_grad_(True)
    assert count_equal_rows(model, torch.tensor([298, 299])) is None
    assert count_equal_rows(nn.Linear(1, 1), torch.tensor([0])) is None


class Resizable(Model):
    """A model whose embedding can be enlarged, as those of Transformers."""

    def resize_token_embeddings(self, size: int) -> nn.Module:
        before, self.tokens = self.tokens, nn.Embedding(size, 8)
        self.tokens.weight.requires_grad_(False)
        self.tokens.weight[: min(size, len(before.weight))] = before.weight[:size]
        return self.tokens


def test_tokens_whose_rows_were_added_to_a_frozen_embedding_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("transformers.modeling_utils")
    library.PreTrainedModel = Resizable  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, library.__name__, library)
    resized = ResizedEmbeddings(Guard(pytest.fail), Fact("added tokens are", pytest.fail, lambda: 0))
    resized.install()
    model = Resizable()
    assert count_new_rows(model, torch.tensor([299])) is None
    for size in (300, 302, 303):
        model.resize_token_embeddings(size)
    resized.uninstall()
    assert count_new_rows(model, torch.tensor([[0, 299, 300], [302, 302, 5]])) == 2
    model.resize_token_embeddings(400)
    assert count_new_rows(model, torch.tensor([399])) is None


class LanguageModel(Model):
    loss_type = "ForCausalLM"


@pytest.mark.parametrize("length", [2, 4, 8])
def test_sequences_of_any_length_show_equal_rows(length: int) -> None:
    tokens = torch.arange(300 - length, 300)[None]
    found = token_facts(LanguageModel(), {"input_ids": tokens, "labels": tokens}, has_cached=False)
    assert float(found["equal_rows"]) == min(length, 3)
