"""A small training that ends in a given way: ``ending.py healthy | raises | endless``."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 120


def main(kind: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.randn(16 * STEPS, 8)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        for step, (batch, target) in enumerate(DataLoader(data, batch_size=16)):
            loss = nn.functional.mse_loss(model(batch), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(0.005)
            if kind == "raises" and step == 36:
                raise ValueError("no more\nbatches")
        if kind != "endless":
            return


if __name__ == "__main__":
    main(sys.argv[1])
