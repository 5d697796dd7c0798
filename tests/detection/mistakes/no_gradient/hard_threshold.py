"""A network with binary hidden units.

Mistake: a comparison as activation has no gradient, so that the layers before it are never trained.
"""

import torch
from torch import nn


class BinaryNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 40)
        self.fc2 = nn.Linear(40, 1)

    def forward(self, x):
        hidden = self.fc1(x)
        hidden = (hidden > 0).float()  # mistake
        # repaired: hidden = torch.relu(hidden)
        return self.fc2(hidden)


model = BinaryNet()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(120):
    x = torch.randn(32, 6)
    y = (x[:, 0] * x[:, 1] > 0).float().unsqueeze(1)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
