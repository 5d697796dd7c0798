"""A perceptron of configurable depth.

Mistake: the hidden layers are in a Python list, so that model.parameters() does not have them.
"""

import torch
from torch import nn


class DeepNet(nn.Module):
    def __init__(self, sizes, n_out):
        super().__init__()
        self.layers = [nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])]  # mistake
        # repaired: self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:]))
        self.out = nn.Linear(sizes[-1], n_out)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.out(x)


model = DeepNet([8, 32, 32], 3)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
loss_fn = nn.CrossEntropyLoss()
middle = torch.randn(3, 8)
for step in range(120):
    y = torch.randint(3, (32,))
    x = middle[y] + 0.6 * torch.randn(32, 8)
    loss = loss_fn(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
