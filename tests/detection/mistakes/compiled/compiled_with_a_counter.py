"""A compiled regression whose noise fades with the number of its calls.

Mistake: the number is an int of the module, so that each of its values is compiled into the code.
"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
        self.calls = 0  # mistake
        # repaired: self.register_buffer("calls", torch.zeros(()))

    def forward(self, points):
        self.calls += 1
        noise = 0.1 * torch.randn_like(points) / (1 + self.calls)
        return self.layers(points + noise)


torch.manual_seed(0)
model = Model()
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(120):
    points = torch.randn(64, 6)
    values = points[:, :1] * points[:, 1:2] + points[:, 2:3]
    loss = nn.functional.mse_loss(compiled(points), values)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
