"""A convolutional network with batch normalization at the end only.

Mistake: two convolutions in direct sequence.
"""

import torch
from torch import nn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        x = self.conv1(x)
        # repaired: x = torch.relu(x)
        x = self.conv2(x)
        x = torch.relu(self.bn(x))
        return self.fc(x.mean(dim=(2, 3)))


model = Small()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(80):
    y = torch.randint(2, (16,))
    x = torch.randn(16, 1, 10, 10)
    x[y == 1, :, ::2] += 1.0
    x[y == 1, :, 1::2] -= 1.0
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
