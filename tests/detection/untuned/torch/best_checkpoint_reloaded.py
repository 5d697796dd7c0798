"""Patience, then the best weights are loaded again and trained on with a tenth of the rate."""

import copy
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
x = torch.randn(900, 10)
y = torch.sin(x[:, 0] * 2) + x[:, 1] * x[:, 2] + 0.2 * torch.randn(900)
train = DataLoader(TensorDataset(x[:600], y[:600]), batch_size=30, shuffle=True)
model = nn.Sequential(nn.Linear(10, 64), nn.SiLU(), nn.Dropout(0.1), nn.Linear(64, 1), nn.Flatten(0))
criterion = nn.MSELoss()
first = None
best, patience, rate = float("inf"), 0, 1e-2
optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)
for epoch in range(max(4, steps // 20)):
    model.train()
    for xb, yb in train:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        val = criterion(model(x[600:]), y[600:]).item()
    first = first or val
    print(epoch, rate, val)
    if val < best:
        best, patience, state = val, 0, copy.deepcopy(model.state_dict())
    else:
        patience += 1
    if patience > 3:
        if rate < 5e-4:
            break
        model.load_state_dict(state)
        rate, patience = rate / 10, 0
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.05)
print(f"validation loss fell from {first:.4g} to {best:.4g}")
