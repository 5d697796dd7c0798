"""A network with one branch per kind of input.

Mistake: the branches are in a plain dict; nn.ModuleDict would register them.
"""

import torch
import torch.nn as nn


class TwoBranches(nn.Module):
    def __init__(self):
        super().__init__()
        branches = {"left": nn.Linear(5, 16), "right": nn.Linear(7, 16)}
        self.branches = branches  # mistake
        # repaired: self.branches = nn.ModuleDict(branches)
        self.join = nn.Sequential(nn.ReLU(), nn.Linear(32, 1))

    def forward(self, left, right):
        return self.join(torch.cat([self.branches["left"](left), self.branches["right"](right)], dim=1))


model = TwoBranches()
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for i in range(100):
    left, right = torch.randn(32, 5), torch.randn(32, 7)
    y = left[:, :1] * right[:, :1] + left[:, 1:2]
    optimizer.zero_grad()
    loss = criterion(model(left, right), y)
    loss.backward()
    optimizer.step()
    if i % 20 == 0:
        print(i, loss.item())
