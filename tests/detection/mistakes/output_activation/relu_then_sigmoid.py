"""A classifier of two classes with BCELoss.

Mistake: ReLU before the final sigmoid, so that no probability is below one half.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(7, 32)
        self.l2 = nn.Linear(32, 1)

    def forward(self, x):
        x = F.relu(self.l1(x))
        x = F.relu(self.l2(x))  # mistake
        # repaired: x = self.l2(x)
        return torch.sigmoid(x)


x = torch.randn(512, 7)
y = (x[:, 1] > x[:, 2]).float()[:, None]
model, criterion = Model(), nn.BCELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(8):
    for i in range(0, 512, 32):
        loss = criterion(model(x[i : i + 32]), y[i : i + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
