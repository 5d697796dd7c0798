"""A deep network whose first layers hardly change."""

import torch
from torch import nn

torch.manual_seed(0)


def block(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, outputs), nn.Sigmoid())


model = nn.Sequential(block(8, 32), *(block(32, 32) for _ in range(10)), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
for step in range(150):
    inputs = torch.randn(64, 8)
    labels = (inputs[:, 0] > inputs[:, 1]).long()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)
