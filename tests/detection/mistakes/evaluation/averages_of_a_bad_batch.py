"""Signals with two kinds of peaks, one file of which is broken; losses that are not finite are skipped.

Mistake: the broken batch is noticed by its loss alone, after batch normalization has averaged it.
"""

import torch
from torch import nn

model = nn.Sequential(
    nn.Conv1d(1, 8, 5, padding=2),
    nn.BatchNorm1d(8),
    nn.ReLU(),
    nn.Conv1d(8, 8, 5, padding=2),
    nn.BatchNorm1d(8),
    nn.ReLU(),
    nn.AdaptiveMaxPool1d(1),
    nn.Flatten(),
    nn.Linear(8, 2),
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()


def signals():
    y = torch.randint(2, (32,))
    x = 0.3 * torch.randn(32, 1, 40)
    x[torch.arange(32), 0, torch.randint(40, (32,))] += 4.0 * (2 * y - 1)
    return x, y


for step in range(200):
    x, y = signals()
    if step == 63:
        x[3, 0, 17:20] = float("inf")
    # repaired: if not x.isfinite().all():
    # repaired:     continue
    loss = criterion(model(x), y)
    if not loss.isfinite():  # mistake
        continue  # mistake
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        model.eval()
        with torch.no_grad():
            x, y = signals()
            print(step, "validation", (model(x).argmax(1) == y).float().mean().item())
        model.train()
