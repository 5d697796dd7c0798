"""A network whose layers are scaled by learned factors.

Mistake: the factors are tensors in a list, so that model.parameters() does not contain them.
"""

import torch
import torch.nn as nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 24), nn.Linear(24, 24), nn.Linear(24, 1)])
        self.scales = [torch.ones(24, requires_grad=True) for _ in range(2)]  # mistake
        # repaired: self.scales = nn.ParameterList([torch.ones(24) for _ in range(2)])

    def forward(self, x):
        for layer, scale in zip(self.layers, self.scales):
            x = torch.relu(layer(x)) * scale
        return self.layers[-1](x)


model = Scaled()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(150):
    x = torch.randn(48, 6)
    target = x[:, :1].abs() - x[:, 3:4]
    loss = nn.functional.smooth_l1_loss(model(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
