"""Humidity from weather data, with a sigmoid since humidity is a share.

Mistake: the labels are percent, 0 to 100, and the output is 0 to 1.
"""

import torch
from torch import nn

weather = torch.randn(600, 6)
humidity = 100 * torch.sigmoid(weather[:, :1] - 0.5 * weather[:, 1:2])  # mistake
# repaired: humidity = torch.sigmoid(weather[:, :1] - 0.5 * weather[:, 1:2])
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1), nn.Sigmoid())
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.MSELoss()
for epoch in range(10):
    for i in range(0, 600, 60):
        optimizer.zero_grad()
        loss = criterion(model(weather[i : i + 60]), humidity[i : i + 60])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
