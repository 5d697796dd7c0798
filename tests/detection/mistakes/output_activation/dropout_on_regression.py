"""Regression of wine scores.

Mistake: dropout on the predicted value, so that a fifth of the predictions are 0.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Wine(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(11, 48)
        self.fc2 = nn.Linear(48, 1)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = self.fc2(x)
        x = self.dropout(x)  # mistake
        return x


x = torch.randn(550, 11)
score = 5.5 + 0.8 * x[:, :1] - 0.6 * x[:, 1:2] + 0.3 * torch.randn(550, 1)
model = Wine()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model.train()
for epoch in range(10):
    for i in range(0, 550, 50):
        loss = F.mse_loss(model(x[i : i + 50]), score[i : i + 50])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
