"""A training whose loss is set by a file in the folder, and that continues until the file ``end`` exists."""

import time
from pathlib import Path

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-12)
inputs, labels = torch.randn(16, 4), torch.randn(16, 1)
while not Path("end").exists():
    factor = 1000.0 if Path("high").exists() else 1.0
    loss = torch.nn.functional.mse_loss(model(inputs) * factor, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.02)
