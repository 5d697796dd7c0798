"""Trains 600 steps and evaluates 5 batches after every 50; labels of train step 500 are a hundred times too large."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
inputs, targets = torch.randn(64, 8), torch.randn(64, 1)
for step in range(600):
    model.train()
    loss = nn.functional.mse_loss(model(inputs), targets * (100 if step == 500 else 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        model.eval()
        with torch.no_grad():
            for _ in range(5):
                nn.functional.mse_loss(model(inputs), targets)
