"""Epochs that a sampler shuffles alike are counted."""

from __future__ import annotations

from pathlib import Path

import torch
from hooked_run import scalars, watch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

DATA = TensorDataset(torch.randn(16, 4))


def counted(folder: Path, *, set_epoch: bool = False, replicas: int = 2, shuffle: bool = True) -> list[float]:
    """Return the check at each step of three epochs of two steps, each followed by an evaluation."""

    def train() -> None:
        model = nn.Sequential(nn.Linear(4, 1), nn.Dropout())
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        sampler = DistributedSampler(DATA, num_replicas=replicas, rank=0, shuffle=shuffle)
        evaluated = DistributedSampler(DATA, num_replicas=2, rank=0)
        for epoch in range(3):
            if set_epoch:
                sampler.set_epoch(epoch)
            for (inputs,) in DataLoader(DATA, batch_size=8 // replicas, sampler=sampler):
                model(inputs).sum().backward()
                optimizer.step()
            model.eval()
            for _ in range(2):
                list(DataLoader(DATA, sampler=evaluated))
            model.train()

    found = scalars(watch(folder, train, "checks:every=1"), "checks")
    return list(found.get("DistributedSampler/epochs_in_one_order", {}).values())


def test_epochs_with_one_number_have_one_order(tmp_path: Path) -> None:
    assert counted(tmp_path) == [1, 1, 2, 2, 3, 3]


def test_another_number_begins_another_order(tmp_path: Path) -> None:
    assert counted(tmp_path, set_epoch=True) == [1, 1, 1, 1, 1, 1]


def test_only_samplers_that_shuffle_for_several_ranks_are_counted(tmp_path: Path) -> None:
    assert counted(tmp_path / "one", replicas=1) == []
    assert counted(tmp_path / "ordered", shuffle=False) == []
