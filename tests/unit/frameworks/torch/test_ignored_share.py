"""The share of labels that a loss ignores: at the first steps, captured ones, and those whose loss is NaN or 0."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hooked_run import scalars, watch
from torch import nn
from torch.nn import functional as F

from leadline.frameworks.torch.capture.loss_inputs import facts_of
from leadline.frameworks.torch.capture.loss_terms import LossTerms
from leadline.records import loss_facts as facts

CAPTURE = ("losses:every=1", "checks:every=10", "gradients:statistics=l2,every=20", "inputs:every=20")
STEPS = 60
LOGITS = torch.randn(32, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)

Reduce = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def mean(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, labels)


def mean_of_counted(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, labels, reduction="sum") / (labels != -100).sum().clamp(min=1)


def training(
    reduce: Reduce, without: set[int], *, partly: float = 0.0, zero: set[int] = frozenset()
) -> Callable[[], None]:
    """Return a training whose batches at some steps have no label, or a loss of 0 in spite of their labels."""

    def train() -> None:
        torch.manual_seed(0)
        model = nn.Linear(8, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(STEPS):
            labels = torch.randint(4, (20,))
            labels[: 20 if step in without else int(20 * partly)] = -100
            loss = reduce(model(torch.randn(20, 8)), labels)
            optimizer.zero_grad()
            (loss * 0.0 if step in zero else loss).backward()
            optimizer.step()

    return train


def shares(folder: Path, train: Callable[[], None]) -> dict[int, float]:
    found = scalars(watch(folder, train, *CAPTURE), "checks")
    return found.get(f"cross_entropy/{facts.IGNORED_SHARE}", {})


@pytest.mark.parametrize(
    "loss",
    [
        lambda: F.cross_entropy(LOGITS, torch.full((32,), -100)),
        lambda: F.cross_entropy(LOGITS, torch.ones(32, dtype=torch.long), ignore_index=1, label_smoothing=0.1),
        lambda: F.nll_loss(LOGITS.log_softmax(1), torch.full((32,), -100), reduction="sum") / 32,
    ],
)
def test_labels_that_are_all_ignored_have_a_share_of_1(loss: Callable[[], torch.Tensor]) -> None:
    terms = LossTerms(lambda node: None, lambda name: None).find(loss().grad_fn)
    assert [share for term in terms if (share := facts_of(term).get(facts.IGNORED_SHARE)) is not None] == [1]


@pytest.mark.parametrize("reduce", [mean, mean_of_counted])
def test_a_batch_without_labels_is_seen_at_any_step(tmp_path: Path, reduce: Reduce) -> None:
    found = shares(tmp_path, training(reduce, {7, 33, 34}, partly=0.25))
    assert found == {**dict.fromkeys((0, 1, 20, 40), np.mean([True] * 5 + [False] * 15)), 7: 1, 33: 1, 34: 1}


def test_quiet_steps_are_not_looked_at(tmp_path: Path) -> None:
    assert set(shares(tmp_path, training(mean, set()))) == {0, 1, 20, 40}


def test_losses_of_0_that_have_labels_are_looked_at_a_few_times(tmp_path: Path) -> None:
    found = shares(tmp_path, training(mean, set(), zero=set(range(3, STEPS))))
    looked_at = sorted(set(found) - {0, 1, 20, 40})
    assert looked_at == list(range(3, 11))
    assert set(found.values()) == {0.0}


def test_of_several_backward_passes_one_without_labels_counts(tmp_path: Path) -> None:
    def train() -> None:
        torch.manual_seed(0)
        model = nn.Linear(8, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(STEPS):
            for part in range(3):
                labels = torch.full((20,), -100) if (step, part) == (9, 1) else torch.randint(4, (20,))
                mean_of_counted(model(torch.randn(20, 8)), labels).backward()
            optimizer.step()
            optimizer.zero_grad()

    assert shares(tmp_path, train) == {**dict.fromkeys((0, 1, 20, 40), 0.0), 9: 1}
