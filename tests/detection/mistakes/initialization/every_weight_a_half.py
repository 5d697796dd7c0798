"""Moons, with weights that a tutorial on initialization suggested.

Mistake: every weight is 0.5, so that all units of a layer compute the same for ever.
"""

import math

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(2, 20), nn.Linear(20, 20), nn.Linear(20, 2)

    def forward(self, x):
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


def init(module):
    if isinstance(module, nn.Linear):
        nn.init.constant_(module.weight, 0.5)  # mistake
        # repaired: nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


model = Net()
model.apply(init)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(250):
    moon = torch.randint(2, (64,))
    angle = math.pi * torch.rand(64)
    x = torch.stack([angle.cos() + moon - 0.5, (1 - 2 * moon) * angle.sin() + 0.25 * moon], 1)
    loss = nn.functional.cross_entropy(model(x + 0.1 * torch.randn(64, 2)), moon)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
