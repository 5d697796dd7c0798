"""A softmax classifier with parameters by hand.

Mistake: weights from torch.randn, with a standard deviation of 1, for 256 inputs.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Hand(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(256, 128))  # mistake
        self.w2 = nn.Parameter(torch.randn(128, 8))  # mistake
        # repaired: self.w1 = nn.Parameter(torch.randn(256, 128) / 16)
        # repaired: self.w2 = nn.Parameter(torch.randn(128, 8) / 12)

    def forward(self, x):
        return F.relu(x @ self.w1) @ self.w2


model = Hand()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
patterns = torch.randn(8, 256)
for step in range(100):
    y = torch.randint(8, (64,))
    x = patterns[y] + 2 * torch.randn(64, 256)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
