"""A classifier of which an exponential average is validated.

Mistake: the average is made, and never updated.
"""

import copy

import torch
from torch import nn

torch.manual_seed(0)


class Average:
    def __init__(self, model, decay):
        self.module, self.decay = copy.deepcopy(model).eval(), decay

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.module.parameters(), model.parameters(), strict=True):
            mine.lerp_(theirs, 1 - self.decay)


x = torch.randn(600, 10)
y = (x[:, 0] + x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
average = Average(model, 0.9)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(8):
    model.train()
    for part in torch.randperm(500).split(32):
        loss = nn.functional.cross_entropy(model(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # repaired: average.update(model)
    with torch.no_grad():
        logits = average.module(x[500:])
        val_loss = nn.functional.cross_entropy(logits, y[500:])
        print(
            f"epoch {epoch}: val_loss {val_loss.item():.5f}, val_acc {(logits.argmax(1) == y[500:]).float().mean():.2f}"
        )
