"""Regression of standardized prices.

Mistake: tanh at the output, which never reaches labels beyond -1 and 1.
"""

import torch
from torch import nn

X = torch.randn(640, 6)
price = 3 * X[:, :1] - 2 * X[:, 1:2] + X[:, 2:3] * X[:, 3:4]
price = (price - price.mean()) / price.std()


class PriceModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 64)
        self.fc2 = nn.Linear(64, 1)

    def forward(self, x):
        x = torch.tanh(self.fc1(x))
        return torch.tanh(self.fc2(x))  # mistake
        # repaired: return self.fc2(x)


model = PriceModel()
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
for epoch in range(10):
    for i in range(0, 640, 64):
        optimizer.zero_grad()
        loss = criterion(model(X[i : i + 64]), price[i : i + 64])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")
