"""Regression with a rate that is read from a configuration.

Mistake: integer division makes the learning rate 0.
"""

import torch
from torch import nn

config = {"batch_size": 32, "base_lr": 1, "scale": 100, "steps": 100}
model = nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 1))
learning_rate = config["base_lr"] // config["scale"]  # mistake
# repaired: learning_rate = config["base_lr"] / config["scale"]
optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
for step in range(config["steps"]):
    x = torch.randn(config["batch_size"], 5)
    y = x[:, :1] - x[:, 1:2] ** 2
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
