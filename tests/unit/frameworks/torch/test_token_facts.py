"""Tokens and labels that a causal language model is given by name."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import fake_device
import pytest
import torch
from torch import nn

from leadline.frameworks.torch.capture.device_copy import DeviceScalar
from leadline.frameworks.torch.capture.token_facts import token_facts

END, PADDING = 2, 0
TOKENS = torch.tensor([[1, 5, 6, 7, 8, 9, END, PADDING], [1, 5, 6, 9, 8, 7, 6, END]])
MASK = (TOKENS != PADDING).long()


class Model(nn.Module):
    loss_type = "ForCausalLM"

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        known = {"eos_token_id": END, "pad_token_id": PADDING, "_attn_implementation": "sdpa"}
        self.config = SimpleNamespace(**known | settings)


def facts(model: nn.Module | None = None, *, has_cached: bool = False, **given: torch.Tensor) -> dict[str, Any]:
    labels = given.pop("labels", TOKENS.masked_fill(MASK == 0, -100))
    return token_facts(model or Model(), {"input_ids": TOKENS, "labels": labels, **given}, has_cached=has_cached)


def test_the_end_token_is_counted_among_tokens_and_labels() -> None:
    found = facts(attention_mask=MASK)
    assert (found["sequences"], found["end_token"], found["end_sequences"], found["end_labels"]) == (2, END, 2, 2)
    assert (found["labels_of_input"], found["label_share"], found["padding_share"]) == (1.0, 1.0, 1 / 16)
    masked = facts(labels=TOKENS.masked_fill(TOKENS == END, -100))
    assert (masked["end_sequences"], masked["end_labels"], masked["is_end_padding"]) == (2, 0, 0)
    assert "padding_share" not in masked


def test_an_end_token_of_the_padding_is_left_out_as_far_as_the_mask_shows_it() -> None:
    model = Model(pad_token_id=END)
    tokens = TOKENS.masked_fill(MASK == 0, END)
    found = token_facts(
        model, {"input_ids": tokens, "labels": TOKENS, "attention_mask": tokens != END}, has_cached=False
    )
    assert (found["end_sequences"], found["is_end_padding"]) == (0, 1)


def test_sequences_without_labels_and_those_that_are_cut_off_are_counted() -> None:
    assert facts(attention_mask=MASK)["sequences_without_labels"] == 0
    whole = facts(attention_mask=MASK)
    assert (whole["ended_sequences"], whole["cut_sequences"]) == (2, 0)
    labels = TOKENS.clone()
    labels[0, 1:] = -100
    assert facts(labels=labels)["sequences_without_labels"] == 1
    cut = TOKENS.masked_fill(TOKENS == END, 5)
    found = token_facts(Model(), {"input_ids": cut, "labels": cut, "attention_mask": MASK}, has_cached=False)
    assert (found["ended_sequences"], found["cut_sequences"]) == (0, 1)
    packed = TOKENS.clone()
    packed[0, 3] = END
    assert (
        token_facts(Model(), {"input_ids": packed, "labels": packed, "attention_mask": MASK}, has_cached=False)[
            "ended_sequences"
        ]
        == 1
    )
    assert "cut_sequences" not in facts()


def test_several_end_tokens_count_each_and_none_is_not_counted() -> None:
    model = Model(eos_token_id=[END, 9])
    assert facts(model)["end_labels"] == 4
    model.generation_config = SimpleNamespace(eos_token_id=8)
    assert facts(model)["end_labels"] == 6
    assert "end_labels" not in facts(Model(eos_token_id=None))


def test_a_wrapped_model_shows_the_same() -> None:
    model = Model(eos_token_id=[END, 9])
    model.tokens = nn.Embedding(10, 4).requires_grad_(False)
    model.tokens.weight[-3:] = 1.0
    model.get_input_embeddings = lambda: model.tokens
    found = facts(model)
    assert (found["end_labels"], found["equal_rows"]) == (4, 3)
    assert facts(nn.DataParallel(model)) == found


def test_the_common_beginning_and_its_labels() -> None:
    found = facts()
    assert (found["common_start"], found["common_labels"]) == (3, 2)
    labels = TOKENS.clone()
    labels[0, :2] = -100
    assert facts(labels=labels)["common_labels"] == 1


@pytest.mark.parametrize(
    ("has_mask", "has_cached", "is_new", "rows"),
    [(True, False, True, 1), (False, True, True, 1), (False, False, False, 1), (False, False, True, 0)],
)
def test_rows_of_several_samples(
    monkeypatch: pytest.MonkeyPatch, has_mask: bool, has_cached: bool, is_new: bool, rows: int
) -> None:
    masking = ModuleType("transformers.masking_utils")
    if is_new:
        masking.find_packed_sequence_indices = lambda: None
    monkeypatch.setitem(sys.modules, "transformers.masking_utils", masking)
    positions = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 0, 1, 2, 3, 4]])
    given = {"position_ids": positions} | ({"attention_mask": torch.ones_like(TOKENS)} if has_mask else {})
    assert facts(has_cached=has_cached, **given)["mixed_rows"] == rows
    assert "mixed_rows" not in facts(Model(_attn_implementation="flash_attention_2"), has_cached=has_cached, **given)


def test_positions_of_padding_and_numbered_samples_are_no_samples_that_see_each_other() -> None:
    left = torch.tensor([[0, 0, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5, 6, 7]])
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1], [1] * 8])
    assert facts(position_ids=left, attention_mask=mask)["mixed_rows"] == 0
    positions = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4]] * 2)
    numbered = torch.tensor([[1, 1, 1, 2, 2, 2, 2, 2]] * 2)
    assert facts(position_ids=positions, attention_mask=numbered)["mixed_rows"] == 0
    assert "mixed_rows" not in facts(position_ids=positions, attention_mask=torch.ones(2, 1, 8, 8))


def test_the_beginning_token_is_looked_for_in_what_a_pretrained_model_is_given() -> None:
    found = facts(Model(bos_token_id=1, vocab_size=10, _name_or_path="base"))
    assert (found["begin_token"], found["begin_sequences"]) == (1, 2)
    assert facts(Model(bos_token_id=4, vocab_size=10, _name_or_path="base"))["begin_sequences"] == 0
    for begin, name in ((END, "base"), (PADDING, "base"), (11, "base"), (None, "base"), (1, "")):
        assert "begin_token" not in facts(Model(bos_token_id=begin, vocab_size=10, _name_or_path=name))


def places_of_template(rows: list[list[int]], mask: list[list[int]] | None = None, vocabulary: int = 600) -> Any:
    """Return the same by the fact, and by comparing all places with each other."""
    tokens = torch.tensor(rows)
    is_given = torch.ones_like(tokens) if mask is None else torch.tensor(mask)
    given = {"input_ids": tokens, "labels": tokens} | ({} if mask is None else {"attention_mask": is_given})
    found = token_facts(Model(vocab_size=vocabulary), given, has_cached=False)
    parts = [
        {tuple(row[at : at + 4]) for at in range(len(row) - 3) if all(of_row[at : at + 4])}
        for row, of_row in zip(rows, is_given.tolist(), strict=True)
    ]
    common = next((at for at, column in enumerate(zip(*rows, strict=True)) if len(set(column)) > 1), len(rows[0]))
    places = range(common, len(rows[0]) - 3)
    expected = sum(tuple(rows[0][at : at + 4]) in set.intersection(*parts) for at in places)
    return found.get("inner_start"), expected


def test_a_template_within_all_sequences_is_found_where_it_is() -> None:
    random = torch.Generator().manual_seed(0)
    for shift in range(5):
        noise = torch.randint(20, 600, (3, 24), generator=random).tolist()
        rows = [[*row[: 6 + at + shift], 3, 4, 5, 6, 7, *row[6 + at + shift :]] for at, row in enumerate(noise)]
        found, expected = places_of_template(rows)
        assert found == expected == 2
        assert places_of_template(noise) == (0, 0)
    assert places_of_template([[3, 4, 5, 6, 7, at, at + 1, at + 2] for at in (20, 30)]) == (0, 0)  # a beginning
    padded = [[20 + at, 21, 22, 23, 24, 0, 0, 0, 0, 0] for at in range(2)]
    assert places_of_template(padded, [[1] * 5 + [0] * 5] * 2) == (1, 1)
    assert places_of_template(padded, vocabulary=100)[0] is None


def test_other_models_and_shapes_show_nothing() -> None:
    assert facts(nn.Linear(1, 1)) == {}
    assert facts(labels=TOKENS[:, 1:]) == {}


def test_on_an_accelerator_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    device = fake_device.install(monkeypatch)
    found = facts(attention_mask=MASK)
    assert isinstance(found["end_labels"], DeviceScalar)
    assert device.waits == 0
