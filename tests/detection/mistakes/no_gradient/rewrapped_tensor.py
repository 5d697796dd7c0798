"""Regression that rearranges its outputs in a list.

Mistake: torch.tensor() of the outputs makes a new tensor, which the network has no part in.
"""

import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 20), nn.ReLU(), nn.Linear(20, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
mse = nn.MSELoss()
for step in range(80):
    x = torch.randn(16, 4)
    target = x[:, 0] + x[:, 1] * x[:, 2]
    outputs = [net(row) for row in x]
    predictions = torch.tensor(outputs, requires_grad=True)  # mistake
    # repaired: predictions = torch.cat(outputs)
    loss = mse(predictions, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
