"""The worker's document says how many elements of a model are trainable."""

from __future__ import annotations

from pathlib import Path

import torch
from hooked_run import watch
from torch import nn

from leadline.records import describe
from leadline.records.documents import WatchedModel


def test_the_share_of_trainable_elements_is_known(tmp_path: Path) -> None:
    def train() -> None:
        model = nn.Sequential(nn.Linear(10, 8), nn.Linear(8, 2))
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
        for _ in range(2):
            model(torch.randn(4, 10)).square().mean().backward()
            optimizer.step()

    documents = list(watch(tmp_path, train).worker_documents().values())
    elements, trainable = 10 * 8 + 8 + 8 * 2 + 2, 8 * 2 + 2
    assert documents[0].models == (WatchedModel("Sequential", 2, elements, trainable),)
    assert describe.models(documents) == ["Sequential (2 parameter tensors; 17 % of 106 elements trainable)"]
