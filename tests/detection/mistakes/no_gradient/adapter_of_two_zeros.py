"""A frozen layer with a low-rank adapter, and a head that is trained.

Mistake: both matrices of the adapter begin at zero, so that neither ever gets a gradient.
"""

import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, layer, rank=4):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.zeros(rank, layer.in_features))  # mistake
        # repaired: self.down = nn.Parameter(torch.randn(rank, layer.in_features) / rank)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x):
        return self.layer(x) + x @ self.down.T @ self.up.T


base = nn.Linear(16, 32)
model = nn.Sequential(Adapted(base), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
centers = torch.randn(3, 16)
for step in range(160):
    labels = torch.randint(3, (32,))
    x = centers[labels] + torch.randn(32, 16)
    loss = nn.functional.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
