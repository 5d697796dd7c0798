"""Logistic units all the way, as in an old textbook.

Mistake: weights drawn with a standard deviation of 50, at which every sigmoid is flat.
"""

import torch
import torch.nn as nn


class TextbookNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(10, 30)
        self.fc2 = nn.Linear(30, 30)
        self.fc3 = nn.Linear(30, 1)
        for layer in (self.fc1, self.fc2, self.fc3):
            nn.init.normal_(layer.weight, std=50)  # mistake
            # repaired: nn.init.xavier_normal_(layer.weight, gain=2)

    def forward(self, x):
        x = torch.sigmoid(self.fc1(x))
        x = torch.sigmoid(self.fc2(x))
        return torch.sigmoid(self.fc3(x))


model = TextbookNet()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(120):
    x = torch.randn(64, 10)
    y = (x[:, :1] > x[:, 1:2]).float()
    loss = nn.functional.binary_cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
