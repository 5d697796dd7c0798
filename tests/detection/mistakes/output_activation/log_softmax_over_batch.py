"""A classifier with log_softmax and nll_loss.

Mistake: log_softmax over dimension 0, the batch.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 32)
        self.fc2 = nn.Linear(32, 6)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=0)  # mistake
        # repaired: return F.log_softmax(self.fc2(x), dim=1)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
codes = torch.randn(6, 16)
for i in range(130):
    target = torch.randint(6, (60,))
    data = codes[target] + 0.7 * torch.randn(60, 16)
    net.zero_grad()
    loss = F.nll_loss(net(data), target)
    loss.backward()
    optimizer.step()
    if i % 20 == 0:
        print(i, loss.item())
