"""A regression network.

Mistake: self.relu is made and never called.
"""

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, 50)
        self.relu = nn.ReLU()
        self.fc2 = nn.Linear(50, 1)

    def forward(self, x):
        x = self.fc1(x)
        # repaired: x = self.relu(x)
        x = self.fc2(x)
        return x


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
criterion = nn.MSELoss()
for step in range(150):
    x = torch.rand(40, 3) * 4 - 2
    y = torch.sin(2 * x[:, :1]) + x[:, 1:2] ** 2 / 2 - 0.7
    optimizer.zero_grad()
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
