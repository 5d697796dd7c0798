"""An encoder learns how far apart inputs are; from step 80 on, the data contains duplicates."""

import torch
from torch import nn

torch.manual_seed(0)


class Distance(nn.Module):
    """The Euclidean distance between two batches of vectors."""

    def forward(self, a, b):
        return torch.sqrt(((a - b) ** 2).sum(dim=1))


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
        self.distance = Distance()

    def forward(self, first, second):
        return self.distance(self.encoder(first), self.encoder(second))


def batch(size=32, duplicates=0.0):
    """Return pairs of inputs, and how far apart their outputs should be."""
    first = torch.randn(size, 16)
    second = first + torch.rand(size, 1) * torch.randn(size, 16)
    is_duplicate = torch.rand(size) < duplicates
    second[is_duplicate] = first[is_duplicate]
    return first, second, (first - second).norm(dim=1) / 4


model = Siamese()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(200):
    first, second, target = batch(duplicates=0.05 if step >= 80 else 0.0)
    loss = nn.functional.mse_loss(model(first, second), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step:3d}  loss {loss.item():.4f}", flush=True)
