"""Reconstruction of masked inputs first; then a new head, a new optimizer and cross entropy."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
encoder = nn.Sequential(nn.Linear(24, 96), nn.GELU(), nn.Linear(96, 48), nn.GELU())
decoder = nn.Linear(48, 24)
centres = torch.randn(4, 24) * 2


def batch():
    y = torch.randint(4, (32,))
    return centres[y] + torch.randn(32, 24), y


optimizer = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()], lr=1e-3, weight_decay=0.01)
first = None
for step in range(steps // 2):
    x, _ = batch()
    kept = (torch.rand_like(x) > 0.3).float()
    loss = ((decoder(encoder(x * kept)) - x) ** 2 * (1 - kept)).sum() / (1 - kept).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print("pretraining", step, loss.item())

head = nn.Linear(48, 4)
model = nn.Sequential(encoder, head)
optimizer = torch.optim.SGD(
    [{"params": encoder.parameters(), "lr": 1e-3}, {"params": head.parameters(), "lr": 1e-2}], momentum=0.9
)
criterion = nn.CrossEntropyLoss()
history = []
for step in range(steps // 2):
    x, y = batch()
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    history.append(loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
