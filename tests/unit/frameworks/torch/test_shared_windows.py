"""Windows of a series that are evaluated, and overlap with those that are trained on, or do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import DataLoader, Subset, TensorDataset

from leadline.frameworks.torch.check.shared_windows import shared_windows

LENGTH, STEPS = 20, 420
SERIES = torch.randn(STEPS, 3, generator=torch.Generator().manual_seed(0)).cumsum(0)
WINDOWS = torch.stack([SERIES[at : at + LENGTH] for at in range(STEPS - LENGTH)])
ORDER = np.random.default_rng(0).permutation(len(WINDOWS)).tolist()


def message(windows: torch.Tensor, trained: Sequence[int], evaluated: Sequence[int]) -> str:
    data = TensorDataset(windows, torch.zeros(len(windows)))
    loaders = DataLoader(Subset(data, trained), 8, shuffle=True), DataLoader(Subset(data, evaluated), 8)
    training, validation = loaders
    assert min(len(training), len(validation)) > 1
    tested = shared_windows()
    return tested.message if tested is not None else ""


def test_windows_that_are_split_at_random_are_named() -> None:
    expected = "of 100 windows that are evaluated share 10 steps or more with one that is trained on"
    assert expected in message(WINDOWS, ORDER[:300], ORDER[300:])
    assert expected in message(WINDOWS[:, :, 0], ORDER[:300], ORDER[300:])
    assert expected in message(WINDOWS.transpose(1, 2), ORDER[:300], ORDER[300:])


def test_parts_of_a_series_overlap_at_their_border_alone() -> None:
    assert message(WINDOWS, range(300), range(300, 400)) == ""
    assert message(WINDOWS, [*range(150), *range(250, 400)], range(150, 250)) == ""


def test_a_training_set_that_is_evaluated_is_not_named() -> None:
    assert message(WINDOWS, range(400), range(300, 400)) == ""


def test_samples_of_other_kinds_are_not_named() -> None:
    separate = torch.randn(400, LENGTH, generator=torch.Generator().manual_seed(1))
    assert message(separate, ORDER[:300], ORDER[300:]) == ""
    assert message(torch.zeros(400, LENGTH), ORDER[:300], ORDER[300:]) == ""
    rounded = (torch.arange(400)[:, None] + torch.arange(LENGTH)) % 5
    assert message(rounded.float(), ORDER[:300], ORDER[300:]) == ""
    assert message(WINDOWS[:, :8], ORDER[:300], ORDER[300:]) == ""
    assert message(WINDOWS, ORDER[:370], ORDER[370:]) == ""
